//! `cargo run --release -p voidbox-vmm --features fuzzing --example fuzz -- SECONDS [TARGET] [SEED]`: changes the corpus of
//! each target at random, and prints how often it ran. An input that breaks a target is in the file that it names.

use std::path::Path;
use std::time::{Duration, Instant};

use voidbox_vmm::fuzz::{TARGETS, mutate};
use voidbox_vmm::virtio::random::Random;

/// The pool of inputs that did more than all before.
const POOL_LIMIT: usize = 2000;

fn main() {
    let mut arguments = std::env::args().skip(1);
    let seconds: u64 = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(60);
    let only = arguments.next();
    let seed = arguments.next().and_then(|s| s.parse().ok()).unwrap_or(1);
    for (name, target) in TARGETS {
        if only
            .as_ref()
            .is_some_and(|only| only != name && only != "all")
        {
            continue;
        }
        let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("fuzz/corpus")
            .join(name);
        let mut pool: Vec<Vec<u8>> = std::fs::read_dir(folder)
            .expect("a corpus")
            .filter_map(|entry| std::fs::read(entry.ok()?.path()).ok())
            .collect();
        let mut random = Random(seed);
        let mut runs = 0u64;
        let mut most = 0;
        let end = Instant::now() + Duration::from_secs(seconds);
        let last = std::env::temp_dir().join(format!("voidbox-fuzz-{name}-{}", std::process::id()));
        while Instant::now() < end {
            let index = usize::try_from(random.below(pool.len() as u64)).unwrap_or(0);
            let input = mutate(&pool[index], &mut random);
            let outcome = std::panic::catch_unwind(|| target(&input));
            let Ok(work) = outcome else {
                std::fs::write(&last, &input).expect("room for the input");
                eprintln!("{name}: the input is in {}", last.display());
                std::process::exit(1);
            };
            runs += 1;
            if work > most || (work > 0 && random.below(50) == 0) {
                most = most.max(work);
                if pool.len() < POOL_LIMIT {
                    pool.push(input);
                } else {
                    pool[index] = input;
                }
            }
        }
        println!("{name}: {runs} runs in {seconds} s, seed {seed}, most work {most}");
    }
}
