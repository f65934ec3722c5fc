//! Choice of a device by its name.

/// Number of the device that `wanted` names. Each device has several names. An equal name counts first, then a part of
/// a name, in any case, if it fits one device only.
#[must_use]
pub fn chosen<const N: usize>(wanted: &str, devices: &[[String; N]]) -> Option<usize> {
    let equal = devices.iter().position(|names| names.iter().any(|name| name == wanted));
    let part = wanted.to_lowercase();
    let fits = |names: &[String; N]| names.iter().any(|name| name.to_lowercase().contains(&part));
    let mut fitting = devices.iter().enumerate().filter(|(_, names)| !part.is_empty() && fits(names));
    equal.or_else(|| fitting.next().filter(|_| fitting.next().is_none()).map(|(number, _)| number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_name_counts_before_a_part_and_a_part_must_fit_one() {
        let devices = [["0", "USB Camera"], ["1", "USB Camera 2"], ["2", "Built-in"]];
        let devices = devices.map(|names| names.map(str::to_owned));
        let chosen = |wanted| chosen(wanted, &devices);
        assert_eq!([chosen("USB Camera"), chosen("built"), chosen("1")], [Some(0), Some(2), Some(1)]);
        assert_eq!([chosen("usb"), chosen("none"), chosen("")], [None; 3]);
    }
}
