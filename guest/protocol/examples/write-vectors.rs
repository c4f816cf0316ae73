//! Writes `vectors/*.hex` again. Run it when the protocol changes on purpose:
//! `cargo run -p voidbox-protocol --example write-vectors`, and read the difference.

#[path = "../tests/samples/mod.rs"]
mod samples;

fn main() -> std::io::Result<()> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors");
    for (name, bytes) in samples::vectors() {
        std::fs::write(folder.join(format!("{name}.hex")), to_text(&bytes))?;
    }
    Ok(())
}

/// Formats the text of a vector file: the bytes in hex, 32 to a line.
fn to_text(bytes: &[u8]) -> String {
    bytes
        .chunks(32)
        .map(|line| {
            let hex: String = line.iter().map(|byte| format!("{byte:02x}")).collect();
            hex + "\n"
        })
        .collect()
}
