//! Writes the seeds of all targets into `fuzz/seeds`.

fn main() -> std::io::Result<()> {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds");
    for (target, name, bytes) in lockstep_fuzz::seeds::all() {
        let folder = root.join(target);
        std::fs::create_dir_all(&folder)?;
        std::fs::write(folder.join(name), bytes)?;
    }
    Ok(())
}
