//! Reads the modules of a crate, and their uses of each other, from the crate's sources.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Each module by its path (`door::helper`, empty for the crate's root), with the modules that it uses.
pub struct Modules(BTreeMap<String, BTreeSet<String>>);

impl Modules {
    /// Reads the crate whose root is `root` (`main.rs` or `lib.rs`) in the folder `src`.
    pub fn read(src: &Path, root: &str) -> Self {
        let mut sources = BTreeMap::new();
        read_folder(src, "", root, &mut sources);
        let uses = sources
            .iter()
            .map(|(module, source)| (module.clone(), find_uses(module, source, &sources)));
        Self(uses.collect())
    }

    /// Returns the modules of the crate's root, each of which is a room together with all modules below it.
    pub fn rooms(&self) -> BTreeSet<&str> {
        let modules = self.0.keys().filter(|module| !module.is_empty());
        modules.map(|module| room_of(module)).collect()
    }

    /// Lists uses of rooms that come later in `order`.
    pub fn describe_broken_order(&self, order: &[&str]) -> Vec<String> {
        let rank = |module: &str| order.iter().position(|room| *room == room_of(module));
        let mut broken = Vec::new();
        for (module, used) in self.0.iter().filter(|(module, _)| !module.is_empty()) {
            for other in used.iter().filter(|other| rank(other) > rank(module)) {
                broken.push(format!("{module} uses {other}"));
            }
        }
        broken
    }

    /// Returns groups of modules that use each other, directly or through others of the group.
    pub fn find_circles(&self) -> Vec<Vec<&str>> {
        let reached: BTreeMap<&str, BTreeSet<&str>> = self
            .0
            .keys()
            .map(|module| (module.as_str(), self.find_reached(module)))
            .collect();
        let circles: BTreeSet<Vec<&str>> = reached
            .iter()
            .filter(|(module, others)| others.contains(*module))
            .map(|(module, others)| {
                let members = others
                    .iter()
                    .filter(|other| reached[*other].contains(module));
                members.copied().collect()
            })
            .collect();
        circles.into_iter().collect()
    }

    fn find_reached(&self, module: &str) -> BTreeSet<&str> {
        let mut reached = BTreeSet::new();
        let mut pending: Vec<&str> = self.0[module].iter().map(String::as_str).collect();
        while let Some(next) = pending.pop() {
            if reached.insert(next) {
                pending.extend(self.0[next].iter().map(String::as_str));
            }
        }
        reached
    }
}

fn room_of(module: &str) -> &str {
    module.split("::").next().unwrap_or_default()
}

fn read_folder(
    folder: &Path,
    parent: &str,
    own_file: &str,
    sources: &mut BTreeMap<String, String>,
) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_stem().unwrap().to_str().unwrap();
        let module = join(parent, name);
        if path.is_dir() {
            read_folder(&path, &module, "mod.rs", sources);
        } else if path.ends_with(own_file) {
            sources.insert(parent.to_owned(), read_code(&path));
        } else if !path.ends_with("main.rs") {
            sources.insert(module, read_code(&path));
        }
    }
}

/// Returns a source without its comments, which may name any module.
fn read_code(path: &Path) -> String {
    let source = fs::read_to_string(path).unwrap();
    assert!(
        !source.contains("super::super::"),
        "{}: write crate:: for what is two modules up",
        path.display()
    );
    let code = source
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"));
    code.collect::<Vec<_>>().join("\n")
}

fn join(parent: &str, name: &str) -> String {
    match parent {
        "" => name.to_owned(),
        parent => format!("{parent}::{name}"),
    }
}

fn find_uses(module: &str, code: &str, modules: &BTreeMap<String, String>) -> BTreeSet<String> {
    let mut used = BTreeSet::new();
    for path in paths_after("crate::", code) {
        used.insert(resolve("", &path, modules));
    }
    let parent = module.rsplit_once("::").map_or("", |(parent, _)| parent);
    // In the tests at a module's end, `super` is the module itself.
    let own = code.split("\nmod tests {").next().unwrap_or_default();
    for path in paths_after("super::", own) {
        used.insert(resolve(parent, &path, modules));
    }
    for child in declared_children(code) {
        for path in paths_after(&format!("{child}::"), code) {
            used.insert(resolve(&join(module, child), &path, modules));
        }
    }
    used.remove(module);
    used
}

fn declared_children(code: &str) -> impl Iterator<Item = &str> {
    code.lines().filter_map(|line| {
        let declared = line.strip_prefix("pub ").unwrap_or(line);
        declared.strip_prefix("mod ")?.strip_suffix(';')
    })
}

/// Returns the paths that begin with `prefix`, without it; for a list in braces, each of its paths.
fn paths_after(prefix: &str, code: &str) -> Vec<String> {
    let is_name = |letter: char| letter.is_alphanumeric() || letter == '_';
    let mut paths = Vec::new();
    for (at, _) in code.match_indices(prefix) {
        let before = &code[..at];
        if before.ends_with(|letter: char| is_name(letter) || letter == ':') {
            continue;
        }
        let rest = &code[at + prefix.len()..];
        let list = rest
            .strip_prefix('{')
            .and_then(|list| list.split('}').next());
        for item in list.unwrap_or(rest).split(',') {
            let end = |letter: char| !is_name(letter) && letter != ':';
            paths.push(item.trim().split(end).next().unwrap_or_default().to_owned());
            if list.is_none() {
                break;
            }
        }
    }
    paths
}

/// Returns the module that contains the item `path` below `base`.
fn resolve(base: &str, path: &str, modules: &BTreeMap<String, String>) -> String {
    let mut module = base.to_owned();
    for name in path.split("::") {
        let child = join(&module, name);
        if !modules.contains_key(&child) {
            break;
        }
        module = child;
    }
    module
}
