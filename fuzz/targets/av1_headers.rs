#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| lockstep_fuzz::av1_headers::run(data));
