//! Names that Kubernetes has for a process, without its API: the pod's number is part of the control
//! group, and kubelet's folders below /var/log/pods are called by it.

/// A pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Pod {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// The container, if the pod has one alone: which of several it is cannot be known from folders.
    pub container: Option<String>,
}

/// The number of the pod whose control group this is.
pub fn pod_uid(cgroup: &str) -> Option<String> {
    if !cgroup.contains("kubepods") {
        return None;
    }
    cgroup.split('/').find_map(|part| {
        let part = part.strip_suffix(".slice").unwrap_or(part);
        let at = part.rfind("pod").map(|at| at + 3)?;
        let uid = part[at..].replace('_', "-");
        let is_uid = uid.len() >= 32 && uid.bytes().all(|b| b.is_ascii_hexdigit() || b == b'-');
        is_uid.then_some(uid)
    })
}

/// The namespace, name and number of a pod out of the name of its folder; none of them has a `_` in it.
pub fn pod_folder(folder: &str) -> Option<(&str, &str, &str)> {
    let mut parts = folder.split('_');
    let found = (parts.next()?, parts.next()?, parts.next()?);
    parts.next().is_none().then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    const UID: &str = "0a1b2c3d-0000-4000-8000-112233445566";

    #[test]
    fn a_pod_is_known_by_the_groups_of_both_drivers() {
        let systemd = format!(
            "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod{}.slice/cri-x.scope",
            UID.replace('-', "_")
        );
        assert_eq!(pod_uid(&systemd).as_deref(), Some(UID));
        assert_eq!(pod_uid(&format!("/kubepods/besteffort/pod{UID}/4f1c")).as_deref(), Some(UID));
        assert_eq!(pod_uid("/system.slice/podman.service"), None);
        assert_eq!(pod_uid("/kubepods/podium"), None);
        assert_eq!(pod_folder(&format!("shop_web-1_{UID}")), Some(("shop", "web-1", UID)));
        assert_eq!(pod_folder("a_b"), None);
    }
}
