use super::{Flow, simulation::run};
#[test]
fn per_site() {
    for ints in [&[16_384u64][..], &[16_384, 32_768, 8_192, 16_384]] {
    for flow in [Flow::Allocated, Flow::Live] {
        let mut c = [[0.0f64; 8]; 13];
        let n = 4000;
        for seed in 1..=n {
            let r = run(seed, ints);
            let known = if flow == Flow::Live { &r.live } else { &r.allocated };
            for s in r.profile.sites_by(flow) {
                let i = s.stack.0 as usize - 1;
                let m = s.heap.measure(flow);
                let c = &mut c[i];
                c[0] += 1.0; c[1] += s.heap.samples(flow) as f64;
                for (j, e, k) in [(2, m.bytes, known[i].bytes), (5, m.count, known[i].count)] {
                    c[j] += f64::from(u8::from(e.low > k.truth));
                    c[j+1] += f64::from(u8::from(e.high < k.truth));
                    c[j+2] += (e.high - e.low) / (3.92 * k.variance.sqrt());
                }
            }
        }
        println!("{flow:?} site samples bytes[miss_below miss_above width] count[..]");
        for (i, c) in c.iter().enumerate().take(12) {
            let n = c[0];
            println!("{i:2} {n} {:6.1}  {:5.2} {:5.2} {:.3}   {:5.2} {:5.2} {:.3}", c[1]/n, 100.*c[2]/n, 100.*c[3]/n, c[4]/n, 100.*c[5]/n, 100.*c[6]/n, c[7]/n);
        }
    }}
}
