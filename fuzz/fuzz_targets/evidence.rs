//! Evidence and policies, as anybody may have written them: nothing panics, and nothing but the
//! statement of an ordinary process is ever trusted.

#![no_main]

use libfuzzer_sys::fuzz_target;
use pgseal_attestation::{verify, BackEnd, Collateral, Policy};

const REGISTER: &str = "000000000000000000000000000000000000000000000000\
                        000000000000000000000000000000000000000000000000";

/// Everything that can be accepted is.
fn lenient() -> Policy {
    let root = "641a0321a3e244efe456463195d606317ed7cdcc3c1756e09893f3c68f79bb5b";
    let tcb = "{ bootloader = 0, tee = 0, snp = 0, microcode = 0 }";
    let any = "rtmr0 = \"any\", rtmr1 = \"any\", rtmr2 = \"any\", rtmr3 = \"any\"";
    let text = format!(
        "[software]\nallowed = true\n\
         [sev-snp]\nmeasurements = [\"{REGISTER}\"]\nvlek = true\nmaximum-vmpl = 3\n\
         [sev-snp.minimum-tcb]\nmilan = {tcb}\ngenoa = {tcb}\nturin = {tcb}\n\
         [tdx]\nmeasurements = [{{ mrtd = \"{REGISTER}\", {any} }}]\n\
         [nitro]\nroot = \"{root}\"\nmeasurements = [{{ pcr0 = \"{REGISTER}\" }}]\n"
    );
    Policy::parse(&text).expect("a policy")
}

fuzz_target!(|data: &[u8]| {
    let Some((&number, data)) = data.split_first() else {
        return;
    };
    let Ok(back_end) = BackEnd::try_from(number) else {
        let text = String::from_utf8_lossy(data);
        let _ = Policy::parse(&text);
        return;
    };
    let text = String::from_utf8_lossy(data);
    let collateral = Collateral {
        amd: data,
        intel: Some(&text),
    };
    let result = verify(back_end, data, &collateral, &lenient(), 1_700_000_000);
    assert!(result.is_err() || back_end == BackEnd::Software);
});
