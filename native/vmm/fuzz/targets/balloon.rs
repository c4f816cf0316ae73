#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    voidbox_vmm::fuzz::drive_balloon(data);
});
