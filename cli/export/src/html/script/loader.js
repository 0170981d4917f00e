'use strict';
// Unpacks the data, if they are packed, and starts the script of the page: until then that is a text.
(() => {
  const data = document.getElementById('data');

  function start(text) {
    globalThis.recorded = JSON.parse(text);
    data.remove();
    const script = document.createElement('script');
    script.textContent = document.getElementById('main').textContent;
    document.body.append(script);
  }

  function fail(why) {
    const told = document.getElementById('failed');
    told.textContent = `The data of this report cannot be unpacked: ${why}.`;
    told.hidden = false;
  }

  if (data.type === 'application/json') {
    start(data.textContent);
  } else if (typeof DecompressionStream === 'undefined') {
    fail('that takes a browser of 2023 or later');
  } else {
    const packed = Uint8Array.from(atob(data.textContent), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream('gzip'));
    new Response(stream).text().then(start).catch(() => fail('the file is damaged'));
  }
})();
