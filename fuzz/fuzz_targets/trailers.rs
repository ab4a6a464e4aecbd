#![no_main]

libfuzzer_sys::fuzz_target!(|input: &[u8]| tamarisk_server::fuzz::trailers::check(input));
