//! The folders at the root of a guest that belong to its system: no mount or file may be put into them. The compiler of
//! specs has the same list, and a test compares it with this file.

const NAMES: &str = include_str!("system-folders.txt");

/// Returns true for the name of a folder at the root that belongs to the system.
pub fn is_system_folder(name: &str) -> bool {
    !name.is_empty() && NAMES.lines().any(|line| line == name)
}

#[cfg(test)]
mod tests {
    use super::is_system_folder;

    #[test]
    fn whole_names_count() {
        assert!(is_system_folder("lib32"));
        assert!(is_system_folder("bin"));
        for other in ["", "b", "bin2", "workspace", "bin\nboot"] {
            assert!(!is_system_folder(other), "{other:?}");
        }
    }
}
