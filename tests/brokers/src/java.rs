//! Java: the choice of the program, and processes that start quickly.
//!
//! Most of a start is class loading. A class-data archive, made by one training run per machine and Java, halves it.

use std::env;
use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::error::{During, Error, Result};
use crate::tool::run;
use crate::{cache, process};

/// A quick start and little memory: several of them run on two processors.
const QUICK: [&str; 3] = ["-XX:TieredStopAtLevel=1", "-Xms64m", "-Xss512k"];

/// The Java of this machine, with the jars of one folder in the cache.
#[derive(Debug, Clone)]
pub(crate) struct Java {
    program: PathBuf,
    /// The class path in a fixed order: an archive is valid only for the class path that it was made with.
    class_path: String,
    /// The folder in the cache.
    pub(crate) folder: PathBuf,
    /// A hash that distinguishes the archives of different Javas and class paths.
    version: u64,
}

/// How a process uses the archive of its role.
#[derive(Debug, Clone)]
pub(crate) enum Archive {
    /// It reads the archive of this name, if there is one.
    Read(&'static str),
    /// It writes the classes that it has loaded to this file at its end.
    Write(PathBuf),
}

impl Java {
    /// With all jars in `lib` of a folder.
    pub(crate) fn with_jars_of(folder: PathBuf) -> Result<Self> {
        let lib = folder.join("lib");
        let mut jars = Vec::new();
        for entry in fs::read_dir(&lib).during(format_args!("list {}", lib.display()))? {
            let path = entry.during(format_args!("list {}", lib.display()))?.path();
            if path.extension().is_some_and(|extension| extension == "jar") {
                jars.push(path.display().to_string());
            }
        }
        jars.sort();
        Self::with(folder, jars.join(":"))
    }

    pub(crate) fn with(folder: PathBuf, class_path: String) -> Result<Self> {
        let program = program()?;
        let metadata = fs::metadata(&program).and_then(|metadata| metadata.modified());
        let modified = metadata.during(format_args!("look at {}", program.display()))?;
        let mut hasher = DefaultHasher::new();
        (&program, modified, &class_path).hash(&mut hasher);
        Ok(Java { program, class_path, folder, version: hasher.finish() })
    }

    /// With a program of ours before the jars: a class and its source, compiled once per machine, source and class path.
    pub(crate) fn and_program(self, class: &str, source: &str) -> Result<Self> {
        let own = self.compiled(class, source)?;
        let class_path = format!("{}:{}", own.display(), self.class_path);
        Self::with(self.folder, class_path)
    }

    /// The jar of a class and its source, compiled once per machine, source and class path. It is a jar because an
    /// archive takes no folders.
    pub(crate) fn compiled(&self, class: &str, source: &str) -> Result<PathBuf> {
        let mut hasher = DefaultHasher::new();
        (source, &self.class_path).hash(&mut hasher);
        let jar = self.folder.join(format!("{class}-{:016x}.jar", hasher.finish()));
        cache::once(&jar, |unfinished| {
            let folder = tempfile::tempdir().during("make a folder for classes")?;
            let file = folder.path().join(format!("{class}.java"));
            fs::write(&file, source).during(format_args!("write {}", file.display()))?;
            let classes = folder.path().join("classes");
            let mut javac = self.tool("javac")?;
            javac.args(["-proc:none", "-encoding", "UTF-8", "-cp", &self.class_path, "-d"]).arg(&classes).arg(&file);
            run(javac, None, "javac")?;
            let mut archiver = self.tool("jar")?;
            archiver.args(["--create", "--file"]).arg(unfinished).arg("-C").arg(&classes).arg(".");
            run(archiver, None, "jar").map(drop)
        })?;
        Ok(jar)
    }

    fn tool(&self, name: &str) -> Result<Command> {
        let tool = self.program.with_file_name(name);
        if tool.exists() {
            Ok(process::command(&tool))
        } else {
            Err(Error::new(format!("find {}: not there; run `make setup`", tool.display())))
        }
    }

    pub(crate) fn class_path(&self) -> &str {
        &self.class_path
    }

    /// A command that runs a class with a quick start and little memory; `options` are further ones of Java.
    pub(crate) fn quick(&self, archive: &Archive, options: &[&str], class: &str) -> Command {
        self.lasting(archive, &[&QUICK[..], options].concat(), class)
    }

    /// A command that runs a class for long, with the second compiler.
    pub(crate) fn lasting(&self, archive: &Archive, options: &[&str], class: &str) -> Command {
        let mut command = self.plain();
        command.args(["-XX:+UseSerialGC", "-XX:-UsePerfData", "-Djava.awt.headless=true", "-Dfile.encoding=UTF-8"]);
        match archive {
            Archive::Write(file) => {
                command.arg(format!("-XX:ArchiveClassesAtExit={}", file.display()));
            }
            Archive::Read(role) => {
                let file = self.archive(role);
                // An empty file means that the training does not work with this Java.
                if fs::metadata(&file).is_ok_and(|metadata| metadata.len() > 0) {
                    command.arg("-Xshare:auto").arg(format!("-XX:SharedArchiveFile={}", file.display()));
                }
            }
        }
        command.args(options).args(["-cp", &self.class_path, class]);
        command
    }

    /// The bare command, independent of the environment.
    pub(crate) fn plain(&self) -> Command {
        let mut command = process::command(&self.program);
        // File names and arguments are UTF-8, whatever the locale is.
        command.env("LC_ALL", "C.UTF-8").env_remove("JAVA_TOOL_OPTIONS").env_remove("CLASSPATH");
        command
    }

    /// Makes the archive of a role, unless that was done on this machine with this Java: `run` runs a process to its
    /// graceful end with [`Archive::Write`].
    pub(crate) fn train(&self, role: &str, run: impl FnOnce(Archive) -> Result<()>) -> Result<()> {
        cache::once(&self.archive(role), |file| {
            run(Archive::Write(file.to_owned()))?;
            if file.exists() {
                return Ok(());
            }
            // So that later starts do without.
            fs::write(file, "").during(format_args!("write {}", file.display()))
        })
    }

    fn archive(&self, role: &str) -> PathBuf {
        self.folder.join(format!("{role}-{:016x}.jsa", self.version))
    }
}

/// The real path of `java`: the one in PATH stays the same when another one is installed.
fn program() -> Result<PathBuf> {
    let found = match env::var_os("JAVA_HOME").filter(|home| !home.is_empty()) {
        Some(home) => Some(Path::new(&home).join("bin/java")),
        None => env::split_paths(&env::var_os("PATH").unwrap_or_default())
            .map(|folder| folder.join("java"))
            .find(|path| path.is_file()),
    };
    let found = found.ok_or_else(|| Error::new("find java: not in PATH; run `make setup`"))?;
    fs::canonicalize(&found).during(format_args!("find {}", found.display()))
}
