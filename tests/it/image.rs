//! The first stage of the Dockerfile, whose dependencies have a layer of their own: run here as Docker runs it.
//!
//! No container engine runs here: `make image-test` builds the image.

use std::fs;
use std::path::Path;
use std::process::Command;

/// Returns the folder of the context: what `.dockerignore` lets pass.
fn context(root: &Path) -> tempfile::TempDir {
    let context = tempfile::tempdir().expect("make a directory for the context");
    let ignored = fs::read_to_string(root.join(".dockerignore")).expect("read .dockerignore");
    let passing: Vec<_> = ignored.lines().filter_map(|line| line.strip_prefix('!')).collect();
    shell(root, &format!("cp -r --parents {} {}", passing.join(" "), context.path().display()));
    context
}

fn shell(folder: &Path, command: &str) {
    let status = Command::new("sh").args(["-euc", command]).current_dir(folder).status().expect("run sh");
    assert!(status.success(), "{command}: {status}");
}

#[test]
fn what_the_dockerfile_copies_is_a_workspace_that_cargo_loads() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let text = fs::read_to_string(root.join("Dockerfile")).expect("read the Dockerfile").replace("\\\n", " ");
    let stage: Vec<_> = text.lines().skip_while(|line| !line.ends_with(" AS manifests")).skip(1).collect();
    let stage = stage.into_iter().take_while(|line| !line.starts_with("FROM "));
    let context = context(root);
    let image = tempfile::tempdir().expect("make a directory for the image");
    for line in stage {
        match line.split_once(' ') {
            Some(("COPY", arguments)) => {
                let (sources, to) = arguments.rsplit_once(' ').expect("a source and a destination");
                let to = image.path().join(to);
                fs::create_dir_all(&to).expect("make the destination");
                for source in sources.split(' ') {
                    // Docker copies the contents of a folder.
                    let contents = if context.path().join(source).is_dir() { "/." } else { "" };
                    shell(context.path(), &format!("cp -r {source}{contents} {}", to.display()));
                }
            }
            Some(("RUN", command)) => shell(image.path(), command),
            _ => {}
        }
    }
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let arguments = ["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"];
    let output = Command::new(cargo).args(arguments).current_dir(image.path()).output().expect("run cargo metadata");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
