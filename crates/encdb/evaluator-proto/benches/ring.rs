//! The cost of a call through the ring: `cargo bench -p pgseal-evaluator-proto`. The server gives
//! each request back; both sides spin, or both sleep. Medians over calls; nothing is asserted.

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use pgseal_cell::Type;
use pgseal_evaluator_proto::ring::{Crowd, Futex, Mapping, RingClient, RingServer};
use pgseal_evaluator_proto::{Collation, ComparisonRequest, Request, Response};

fn main() {
    codec();
    for (name, cores, calls) in [("spinning", 64, 200_000), ("sleeping", 0, 20_000)] {
        for len in [91, 8_192, 2 << 20] {
            let calls = if len > 100_000 { 200 } else { calls };
            println!(
                "{name:<10} {len:>8} bytes {:>9.1} ns",
                round_trip(cores, len, calls)
            );
        }
    }
}

/// The median of calls.
fn round_trip(cores: u32, len: usize, calls: usize) -> f64 {
    let stop = AtomicBool::new(false);
    let crowd = Crowd::new(cores);
    let (ours, memory) = Mapping::create().expect("a memfd");
    let theirs = Mapping::open(memory.as_fd()).expect("a ring");
    let mut times = Vec::with_capacity(calls);
    thread::scope(|scope| {
        scope.spawn(|| {
            let mut server = RingServer::new(theirs, Futex, &crowd);
            let mut request = Vec::new();
            while server
                .next(&mut request, Duration::from_millis(100), || {
                    !stop.load(Ordering::SeqCst)
                })
                .is_ok()
            {
                server.answer(&request).expect("it fits");
            }
        });
        let mut client = RingClient::new(ours, Futex);
        let (request, mut response) = (vec![7; len], Vec::new());
        for _ in 0..calls {
            // One look at the clock for several calls, as it costs as much as one.
            let start = Instant::now();
            for _ in 0..4 {
                client
                    .call(&request, &mut response, || true)
                    .expect("a server");
            }
            times.push(start.elapsed().as_secs_f64() * 1e9 / 4.0);
        }
        stop.store(true, Ordering::SeqCst);
    });
    times.sort_by(f64::total_cmp);
    times[calls / 2]
}

fn codec() {
    let cell = [Type::Int4 as u8; 39];
    let mut bytes = Vec::new();
    let compare = Request::Comparison(ComparisonRequest::Compare {
        collation: Collation::C,
        left: &cell,
        right: &cell,
    });
    time("encode a comparison", || {
        bytes.clear();
        std::hint::black_box(&compare).encode(&mut bytes);
    });
    time("parse a comparison", || {
        std::hint::black_box(Request::parse(std::hint::black_box(&bytes)).is_ok());
    });
    let mut answer = Vec::new();
    Response::Order(std::cmp::Ordering::Less).encode(&mut answer);
    time("parse an order", || {
        std::hint::black_box(Response::parse(std::hint::black_box(&answer)).is_ok());
    });
}

fn time(name: &str, mut call: impl FnMut()) {
    const CALLS: u32 = 1_000_000;
    let start = Instant::now();
    (0..CALLS).for_each(|_| call());
    let ns = start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS);
    println!("{name:<24} {ns:>9.1} ns");
}
