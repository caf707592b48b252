use super::*;

fn list(pairs: &[(&str, &str)]) -> BTreeMap<String, ApiQuantity> {
    pairs.iter().map(|(name, value)| ((*name).to_owned(), ApiQuantity((*value).to_owned()))).collect()
}

#[test]
fn a_list_is_read_into_slots_and_comes_back() {
    let input = list(&[("cpu", "3500m"), ("memory", "4Gi"), ("nvidia.com/gpu", "2"), ("pods", "110")]);
    let resources = Resources::from_quantities(&input, Rounding::Up).unwrap();
    assert_eq!((resources.cpu(), resources.memory(), resources.pods()), (3500, 4 << 30, 110));
    assert_eq!(resources.get("nvidia.com/gpu"), 2);
    assert_eq!(resources.to_quantities(), input);
    assert_eq!(resources.to_string(), "cpu=3500m,memory=4Gi,nvidia.com/gpu=2,pods=110");
}

#[test]
fn an_unreadable_amount_names_resource_and_value() {
    let error = Resources::from_quantities(&list(&[("memory", "16GB")]), Rounding::Down).unwrap_err();
    assert_eq!((error.resource.as_str(), error.value.as_str()), ("memory", "16GB"));
    assert!(error.to_string().starts_with("memory: \"16GB\" isn't a quantity"), "{error}");
    let negative = Resources::from_quantities(&list(&[("memory", "-16Gi")]), Rounding::Down).unwrap_err();
    assert!(negative.to_string().contains("negative"), "{negative}");
}

#[test]
fn the_first_resource_that_does_not_fit_is_named_with_figures() {
    let needs = Resources::ZERO.with(CPU, 9000).with("nvidia.com/gpu", 1);
    let small = Resources::ZERO.with(CPU, 4000);
    assert_eq!(needs.shortfall(&small).unwrap().message("m1"), "cpu: needs 9, m1 has 4");
    let large = Resources::ZERO.with(CPU, 16_000);
    assert_eq!(needs.shortfall(&large).unwrap().message("m1"), "nvidia.com/gpu: needs 1, m1 has 0");
    assert!(needs.shortfall(&large.with("nvidia.com/gpu", 1)).is_none());
}

#[test]
fn an_overcommitted_holder_takes_nothing_even_of_other_resources() {
    let overcommitted = Resources::ZERO.with(CPU, 4000).with(MEMORY, -1);
    assert!(!Resources::ZERO.with(CPU, 1).fits(&overcommitted));
    assert_eq!(Resources::ZERO.with(CPU, 1).shortfall(&overcommitted).unwrap().resource, "memory");
    let gone = Resources::ZERO.with(CPU, 4000).with("nvidia.com/gpu", -1);
    assert!(!Resources::ZERO.with(CPU, 1).fits(&gone));
    assert_eq!(Resources::ZERO.with(CPU, 1).shortfall(&gone).unwrap().resource, "nvidia.com/gpu");
}

#[test]
fn arithmetic_saturates_and_keeps_no_zeros() {
    let most = Resources::ZERO.with(CPU, i64::MAX).with("x", 1);
    assert_eq!(most.plus(&most).cpu(), i64::MAX);
    assert_eq!(most.minus(&most), Resources::ZERO);
    assert!(most.minus(&most).is_zero());
    let mut sum = Resources::ZERO.with("x", -1);
    sum.add(&most);
    assert_eq!(sum, Resources::ZERO.with(CPU, i64::MAX));
}

#[test]
fn hugepages_are_taken_off_memory() {
    let capacity = Resources::ZERO.with(MEMORY, 8 << 30).with("hugepages-2Mi", 2 << 30);
    let overhead = Resources::ZERO.with(MEMORY, 1 << 30);
    assert_eq!(capacity.allocatable(&overhead).memory(), 5 << 30);
    assert_eq!(Resources::ZERO.with(MEMORY, 1).allocatable(&overhead).memory(), 0);
}

#[test]
fn a_limit_of_zero_is_a_limit() {
    let limits = ResourceList::from_quantities(&list(&[("cpu", "0")]), Rounding::Down).unwrap();
    let exceeded = limits.exceeded(&Resources::ZERO, &Resources::ZERO.with(CPU, 4000)).unwrap();
    assert_eq!(exceeded.to_string(), "cpu: adding 4 would exceed 0 (in use 0)");
    assert_eq!(limits.exceeded(&Resources::ZERO, &Resources::ZERO.with(MEMORY, 1)), None);
}
