//! Certificates and their keys.

use std::path::Path;

use tamarisk_server::tls::{Identity, Tls};
use tamarisk_settings::table::{Form, Table, key};
use tamarisk_settings::values::list;
use tamarisk_settings::{Fault, Section, Value};

use super::disk::Disk;
use super::values::file;

pub(super) static TLS: Table = Table {
    heading: "[[tls]]",
    summary: "A certificate and its key. A client gets the certificate for the name that it requests, or else the first.",
    groups: &[&[
        key("certificate", Form::Text("path"), "certificate chain in PEM, relative to this file")
            .required(),
        key("key", Form::Text("path"), "private key in PEM").required(),
    ]],
};

/// The tables `[[tls]]`, whose paths are relative to `folder`; none if the disk is not asked.
///
/// # Errors
/// A [`Fault`] at what cannot be.
pub(super) fn tls(value: &Value<'_>, folder: &Path, disk: Disk) -> Result<Option<Tls>, Fault> {
    let identities = list(value, |value| {
        let (section, mut mistakes) = Section::collecting(value, &TLS)?;
        let chain = |value| file(value, "chain.pem", folder);
        let certificate = mistakes.note(section.require("certificate", "\"chain.pem\"", chain));
        let key = |value| file(value, "key.pem", folder);
        let key = mistakes.note(section.require("key", "\"key.pem\"", key));
        mistakes.done(|| Some(Identity { certificate: certificate?, key: key? }))
    })?;
    if identities.is_empty() {
        let expected = "add a certificate and its key, or remove `tls`";
        return Err(Fault::new(value.span(), "`tls` is empty", expected));
    }
    match disk {
        Disk::Unasked => Ok(None),
        Disk::Asked => Tls::open(identities).map(Some).map_err(|error| {
            let expected = "expected a usable certificate and its key";
            Fault::new(value.span(), error.to_string(), expected)
        }),
    }
}
