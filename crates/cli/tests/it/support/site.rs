//! A folder with a file that describes it, and `tamarisk serve` for as long as the test lasts.

#![allow(dead_code, unreachable_pub, reason = "no file of tests needs all of it")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use super::said::Said;

pub struct Site {
    pub folder: PathBuf,
    pub address: String,
    process: Child,
}

impl Site {
    /// `settings` in the folder `name`, whose `public` has one page.
    pub fn start(name: &str, page: &[u8], settings: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
        let _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(folder.join("public")).unwrap();
        fs::write(folder.join("public/index.html"), page).unwrap();
        certificate(&folder);
        let file = folder.join("site.toml");
        let listen = "listen = \"127.0.0.1:0\"\ncores = 1\n";
        fs::write(&file, [listen, settings].concat()).unwrap();
        let mut process = Command::new(env!("CARGO_BIN_EXE_tamarisk"))
            .arg("serve")
            .arg(&file)
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let address = Said::by(process.stderr.take().unwrap()).address();
        Self { folder, address, process }
    }

    pub fn port(&self) -> &str {
        self.address.rsplit(':').next().unwrap()
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// What openssl makes of no authority: `a.pem` and `a.key`.
fn certificate(folder: &Path) {
    let made = Command::new("openssl")
        .args(["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256"])
        .args(["-nodes", "-days", "30", "-subj", "/CN=localhost"])
        .args(["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"])
        .args(["-out", "a.pem", "-keyout", "a.key"])
        .current_dir(folder)
        .output()
        .expect("openssl is needed: apt-get install openssl");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
}
