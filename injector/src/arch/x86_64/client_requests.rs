//! valgrind's client requests: sequences of instructions that do nothing without it.

/// What each begins with: turns of a register that leave it as it was.
const TURNS: [u8; 16] = [
    0x48, 0xc1, 0xc7, 0x03, 0x48, 0xc1, 0xc7, 0x0d, 0x48, 0xc1, 0xc7, 0x3d, 0x48, 0xc1, 0xc7, 0x33,
];
/// What makes one a request, and no other sign to valgrind.
const IS_REQUEST: [u8; 3] = [0x48, 0x87, 0xdb];
/// Its number is the first of its arguments, which are written on the stack before it.
const BEFORE: usize = 160;

/// Where each request in this code ends, and its number, if it is a constant there; `is_number` knows those that
/// there are.
pub fn client_requests(code: &[u8], is_number: impl Fn(u32) -> bool) -> Vec<(usize, Option<u32>)> {
    let mut all = Vec::new();
    let mut from = 0;
    while let Some(at) = next(code, from) {
        let start = at.saturating_sub(BEFORE).max(from);
        let written = code[start..at].windows(4).rev();
        let mut numbers =
            written.filter_map(|bytes| Some(u32::from_le_bytes(*bytes.first_chunk()?)));
        from = at + TURNS.len() + IS_REQUEST.len();
        if code.get(at + TURNS.len()..from) == Some(&IS_REQUEST) {
            all.push((from, numbers.find(|number| is_number(*number))));
        }
    }
    all
}

/// Where the next sequence begins.
fn next(code: &[u8], from: usize) -> Option<usize> {
    let mut from = from;
    loop {
        // The rarest of its bytes first: most code has none of them.
        let found = code.get(from + 7..)?.iter().position(|byte| *byte == TURNS[7])?;
        if code.get(from + found..from + found + TURNS.len()) == Some(&TURNS) {
            return Some(from + found);
        }
        from += found + 1;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// `movq $number, 0x60(%rsp)`, and the request.
    fn request(number: u32) -> Vec<u8> {
        let mut code = vec![0x48, 0xc7, 0x44, 0x24, 0x60];
        code.extend(number.to_le_bytes());
        code.extend([0x90; 20]);
        code.extend(TURNS);
        code.extend(IS_REQUEST);
        code
    }

    #[test]
    fn requests_are_told_by_their_numbers() {
        let code = [request(0x1303), vec![0xcc; 7], request(7), request(0x4d43_0006)].concat();
        let told = client_requests(&code, |number| [0x1303, 0x4d43_0006].contains(&number));
        let numbers: Vec<_> = told.iter().map(|(_, number)| *number).collect();
        assert_eq!(numbers, [Some(0x1303), None, Some(0x4d43_0006)]);
        assert_eq!((told[0].0, told[2].0), (request(0).len(), code.len()));
        let mut other = request(0x1303);
        let last = other.len() - 1;
        other[last] = 0xc9;
        assert!(client_requests(&other, |_| true).is_empty(), "another sign");
        assert!(
            client_requests(&TURNS, |_| true).is_empty()
                && client_requests(&[], |_| true).is_empty()
        );
    }

    proptest! {
        #[test]
        fn any_code_is_survived(code: Vec<u8>, at: prop::sample::Index) {
            let mut code = code;
            code.splice(at.index(code.len() + 1).., request(0x1303));
            let told = client_requests(&code, |number| number == 0x1303);
            prop_assert!(told.iter().any(|(_, number)| *number == Some(0x1303)));
        }
    }
}
