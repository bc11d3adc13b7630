#![no_main]

libfuzzer_sys::fuzz_target!(
    init: nephele_fuzz::write_samples("table").expect("the folder can be written to"),
    |data: &[u8]| (nephele_fuzz::target("table").run)(data)
);
