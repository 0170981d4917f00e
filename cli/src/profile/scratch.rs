use std::time::Instant;
use heapattach_injector::{addr::RemoteAddr, event::{Event, StackId, What}};
use super::{block::Block, live::LiveSet, simulation::Random};
#[test]
#[ignore]
fn parts() {
    
    println!("event {}", size_of::<Event>());
    for (live_n, together) in [(1usize<<13, 64usize), ((1<<20), 64), (700_000,64), (700_000, 32)] {
    let mut random = Random(1);
    let mut live = LiveSet::new(1 << 24);
    let mut blocks: Vec<(u64,u64)> = (0..live_n as u64).map(|n| (0x5500_0000_0000 + n * 80, n)).collect();
    for &(at, s) in &blocks { live.allocated(Block::new(RemoteAddr::new(at), s, 8, StackId(1), 1)); }
    let evs: Vec<(u64, bool)> = (0..2_000_000).flat_map(|_| { let b = blocks[random.below(live_n as u64) as usize].0; [(b, false), (b, true)] }).collect();
    let t = Instant::now();
    for c in evs.chunks(together) { live.warm(c.iter().map(|e| RemoteAddr::new(e.0))); }
    println!("{live_n} {together} warm {:.1} ns", t.elapsed().as_secs_f64() * 1e9 / evs.len() as f64);
    let t = Instant::now();
    let mut stamp = 1 << 32;
    for c in evs.chunks(together) { live.warm(c.iter().map(|e| RemoteAddr::new(e.0)));
        for e in c { stamp += 1; if e.1 { live.allocated(Block::new(RemoteAddr::new(e.0), stamp, 8, StackId(1), 1)); } else { live.freed(stamp, RemoteAddr::new(e.0), None); } } }
    println!("{live_n} {together} warm+live {:.1} ns", t.elapsed().as_secs_f64() * 1e9 / evs.len() as f64);
    let t = Instant::now();
    for e in &evs { stamp += 1; if e.1 { live.allocated(Block::new(RemoteAddr::new(e.0), stamp, 8, StackId(1), 1)); } else { live.freed(stamp, RemoteAddr::new(e.0), None); } } 
    println!("cold live {:.1} ns", t.elapsed().as_secs_f64() * 1e9 / evs.len() as f64);
    let t = Instant::now();
    for i in 0..4_000_000u64 { stamp += 1; let at = RemoteAddr::new(0x5500_0000_0000 + (i/2 % 1000)*80); if i % 2 == 1 { live.allocated(Block::new(at, stamp, 8, StackId(1), 1)); } else { live.freed(stamp, at, None); } }
    println!("cached live {:.1} ns", t.elapsed().as_secs_f64() * 1e9 / evs.len() as f64);
    let _ = &mut blocks; let _ = What::Restored{announced:1};
    }
}
