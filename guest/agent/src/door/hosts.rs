//! Announces the door to programs of the guest: names in `/etc/hosts`, variables of commands.

use std::fs;
use std::io;
use std::net::SocketAddr;

use voidbox_protocol::body::DoorService;

use super::addresses::service_address;

/// The names of the guest itself in the file.
const HOSTS: &str = "127.0.0.1 localhost voidbox\n::1 localhost\n";

/// Writes the name of each service.
pub fn write_names(services: &[DoorService]) -> io::Result<()> {
    fs::create_dir_all("/etc")?;
    fs::write("/etc/hosts", hosts_file(services))
}

fn hosts_file(services: &[DoorService]) -> String {
    let names = services.iter().enumerate();
    let lines =
        names.map(|(index, service)| format!("{} {}\n", service_address(index), service.name));
    HOSTS.to_owned() + &lines.collect::<String>()
}

/// Returns the default environment variables of every command of the guest.
pub fn variables(proxy: Option<SocketAddr>, services: &[DoorService]) -> Vec<(String, String)> {
    let Some(address) = proxy else {
        return Vec::new();
    };
    let proxy = format!("http://{address}");
    let direct = direct_hosts(services);
    let each = ["http_proxy", "https_proxy", "all_proxy"].map(|name| (name, proxy.clone()));
    // Programs differ in whether they read upper or lower case.
    each.into_iter()
        .chain([("no_proxy", direct)])
        .flat_map(|(name, value)| {
            [
                (name.to_uppercase(), value.clone()),
                (name.to_owned(), value),
            ]
        })
        .collect()
}

fn direct_hosts(services: &[DoorService]) -> String {
    let mut hosts = vec!["localhost".to_owned(), "127.0.0.1".into(), "::1".into()];
    for (index, service) in services.iter().enumerate() {
        hosts.push(service.name.clone());
        hosts.push(service_address(index).to_string());
    }
    hosts.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::door::addresses::PROXY;

    fn services() -> Vec<DoorService> {
        let service = |name: &str, port| DoorService {
            name: name.into(),
            port,
        };
        vec![service("db", 5432), service("cache", 6379)]
    }

    #[test]
    fn each_service_has_an_address_of_its_own() {
        assert_eq!(
            hosts_file(&services()),
            "127.0.0.1 localhost voidbox\n::1 localhost\n127.0.1.1 db\n127.0.1.2 cache\n"
        );
    }

    #[test]
    fn both_cases_of_each_variable_are_there() {
        let variables: std::collections::BTreeMap<_, _> =
            variables(Some(PROXY.into()), &services())
                .into_iter()
                .collect();
        for name in ["http_proxy", "https_proxy", "all_proxy"] {
            assert_eq!(variables[name], "http://127.0.0.1:3128");
            assert_eq!(variables[&name.to_uppercase()], "http://127.0.0.1:3128");
        }
        let direct = "localhost,127.0.0.1,::1,db,127.0.1.1,cache,127.0.1.2";
        assert_eq!(variables["no_proxy"], direct);
        assert_eq!(variables["NO_PROXY"], direct);
        assert_eq!(variables.len(), 8);
    }
}
