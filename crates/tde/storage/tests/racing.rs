//! A read that races the writer of its last block, at WAL's flush boundary, or of a page that no
//! image in WAL restores: the disk shows another image at every read.

#![allow(clippy::unwrap_used, clippy::cast_possible_truncation)] // as in the support module

mod support;

use pgseal_storage::layout::Layout;
use pgseal_storage::{Disk, Errno, Lock, Transfer};
use std::cell::RefCell;
use support::{scratch, Data, Kind, Op, Twin, LENGTHS};

/// Stored images, one a read; the last one stays.
struct Changing(RefCell<Vec<Vec<u8>>>);

impl Disk for Changing {
    fn read_at(&self, buf: &mut [u8], offset: u64) -> Result<usize, Errno> {
        let mut images = self.0.borrow_mut();
        let image = images[0].clone();
        if images.len() > 1 {
            images.remove(0);
        }
        let from = image.get(offset as usize..).unwrap_or(&[]);
        let len = from.len().min(buf.len());
        buf[..len].copy_from_slice(&from[..len]);
        Ok(len)
    }

    fn size(&self) -> Result<u64, Errno> {
        Ok(self.0.borrow()[0].len() as u64)
    }

    fn write_at(&self, _: &[u8], _: u64) -> Result<usize, Errno> {
        Err(Errno::EIO)
    }

    fn set_size(&self, _: u64) -> Result<(), Errno> {
        Err(Errno::EIO)
    }

    fn allocate(&self, _: u64, _: u64) -> Result<(), Errno> {
        Err(Errno::EIO)
    }

    fn lock(&self, _: Lock) -> Result<(), Errno> {
        Ok(())
    }
}

fn wal() -> Kind {
    Kind::new(Layout::wal(2048), LENGTHS[2])
}

/// A file of `len` bytes: its clear and stored form.
fn image(len: usize, seed: u64) -> (Vec<u8>, Vec<u8>) {
    let write = |len, seed| Op::Write {
        offset: 0,
        len,
        shift: 0,
        data: Data::Seed(seed),
    };
    let twin = Twin::built(
        wal(),
        &[write(len, 1), write(0, 0), write(32, 2), write(len, seed)],
    );
    (twin.plain.clone(), twin.disk.stored())
}

/// Reads 100 bytes at offset 4 from a file that changes.
fn read(images: Vec<Vec<u8>>) -> Result<Vec<u8>, Errno> {
    let mut buf = vec![0; 100];
    let disk = Changing(RefCell::new(images));
    let got = wal()
        .open()
        .read_at(&mut Transfer::new(&disk, &mut scratch()), &mut buf, 4)?;
    buf.truncate(got);
    Ok(buf)
}

/// Half old, half new: block 6 (bytes 96 to 111), where the read ends.
fn torn(old: &[u8], new: &[u8]) -> Vec<u8> {
    [&old[..104], &new[104..]].concat()
}

#[test]
fn a_half_written_last_block_is_read_again() {
    let (plain, new) = image(8192, 3);
    let (_, mut old) = image(8192, 4);
    old[..96].copy_from_slice(&new[..96]);
    let torn = torn(&old, &new);
    let images = vec![torn.clone(), old, torn, new.clone(), new];
    assert_eq!(read(images), Ok(plain[4..104].to_vec()));
}

#[test]
fn a_block_that_never_settles_is_an_error() {
    let (_, one) = image(8192, 3);
    let (_, two) = image(8192, 4);
    let images = (0..300).map(|i| if i % 2 == 0 { one.clone() } else { two.clone() });
    assert_eq!(read(images.collect()), Err(Errno::EIO));
}

/// The file ends in the block that is read, and grows or shrinks meanwhile.
#[test]
fn a_file_that_changes_its_size_in_between_is_read_as_it_then_is() {
    let (long_plain, long) = image(110, 3);
    let (short_plain, short) = image(100, 3);
    let grows = vec![short.clone(), short.clone(), long.clone()];
    assert_eq!(read(grows), Ok(long_plain[4..104].to_vec()));
    let shrinks = vec![long, short];
    assert_eq!(read(shrinks), Ok(short_plain[4..].to_vec()));
}

/// Reads the first page whole, as PostgreSQL does where it follows WAL.
fn read_page(images: Vec<Vec<u8>>) -> Result<Vec<u8>, Errno> {
    let mut page = vec![0; 8192];
    let disk = Changing(RefCell::new(images));
    let got = wal()
        .open()
        .read_at(&mut Transfer::new(&disk, &mut scratch()), &mut page, 0)?;
    page.truncate(got);
    Ok(page)
}

/// The flush ends in block 6, which is being written again, in the middle of the page.
#[test]
fn a_page_that_is_read_whole_settles_where_its_writer_is() {
    let (plain, new) = image(16384, 3);
    let (_, mut old) = image(16384, 4);
    old[..96].copy_from_slice(&new[..96]);
    let torn = torn(&old, &new);
    for images in [
        vec![torn.clone(), new.clone()],
        vec![old.clone(), torn.clone(), torn.clone(), new.clone()],
        vec![torn, old, new.clone()],
    ] {
        let page = read_page(images);
        assert_eq!(
            page.map(|page| page[..112].to_vec()),
            Ok(plain[..112].to_vec())
        );
    }
    assert_eq!(read_page(vec![new]), Ok(plain[..8192].to_vec()));
}

#[test]
fn a_page_whose_block_never_settles_is_an_error() {
    let images = [3, 4, 5].map(|seed| image(16384, seed).1);
    let images = (0..300).map(|i| images[i % 3].clone());
    assert_eq!(read_page(images.collect()), Err(Errno::EIO));
}

/// A page is right up to where it was written, even if the writer goes on behind that.
#[test]
fn a_page_that_grows_meanwhile_is_right_up_to_there() {
    let (plain, new) = image(16384, 3);
    let (_, mut old) = image(16384, 4);
    old[..4096].copy_from_slice(&new[..4096]);
    let page = read_page(vec![old, new]);
    assert_eq!(
        page.map(|page| page[..4096].to_vec()),
        Ok(plain[..4096].to_vec())
    );
}

#[test]
fn a_page_that_the_end_of_the_file_cuts_is_read_as_far_as_it_goes() {
    let (plain, stored) = image(110, 3);
    assert_eq!(read_page(vec![stored]), Ok(plain));
}

/// A file of two pages without images: its clear and stored form.
fn pages(seed: u64) -> (Vec<u8>, Vec<u8>) {
    let write = Op::Write {
        offset: 0,
        len: 2 * 8192,
        shift: 0,
        data: Data::Seed(seed),
    };
    let twin = Twin::built(without_images(), &[write]);
    (twin.plain.clone(), twin.disk.stored())
}

fn without_images() -> Kind {
    Kind::new(Layout::PAGES_WITHOUT_IMAGES, LENGTHS[2])
}

/// Returns 9000 bytes at offset 100 as a reader beside the writer gets them: clear, and stored.
fn beside(images: &[Vec<u8>]) -> [Result<Vec<u8>, Errno>; 2] {
    let disk = || Changing(RefCell::new(images.to_vec()));
    let (mut clear, mut stored) = (vec![0; 9000], vec![0; 9000]);
    let opened = without_images()
        .open()
        .read_beside(&mut Transfer::new(&disk(), &mut scratch()), &mut clear, 100)
        .map(|got| clear[..got].to_vec());
    let copied = Transfer::new(&disk(), &mut scratch()).read_stored(&mut stored, 100);
    [opened, copied.map(|got| stored[..got].to_vec())]
}

/// Three blocks of the first page are half old and half new at the first read: at its start, in its
/// middle, and at its end. The second page is old and then new.
#[test]
fn a_block_without_image_is_read_until_two_reads_agree() {
    let ((plain, new), (_, old)) = (pages(3), pages(4));
    let mut torn = new.clone();
    for at in [0, 4096, 8176] {
        torn[at..at + 8].copy_from_slice(&old[at..at + 8]);
    }
    let expected = [plain[100..9100].to_vec(), new[100..9100].to_vec()];
    assert_eq!(beside(&[torn, old, new]), expected.map(Ok));
}

#[test]
fn a_block_without_image_that_never_settles_is_an_error() {
    let ((_, one), (_, two)) = (pages(3), pages(4));
    let images: Vec<_> = (0..300)
        .map(|i| if i % 2 == 0 { one.clone() } else { two.clone() })
        .collect();
    assert_eq!(beside(&images), [Err(Errno::EIO), Err(Errno::EIO)]);
}

/// As SLRUs do, a page at a time.
#[test]
fn a_file_that_grows_is_read_as_it_then_is() {
    let (plain, whole) = pages(3);
    let images = [
        whole[..8192].to_vec(),
        whole[..8192].to_vec(),
        whole.clone(),
    ];
    let expected = [plain[100..9100].to_vec(), whole[100..9100].to_vec()];
    assert_eq!(beside(&images), expected.map(Ok));
    let [clear, stored] = beside(&[whole[..8192].to_vec()]);
    assert_eq!(
        (clear, stored),
        (Ok(plain[100..8192].to_vec()), Ok(whole[100..8192].to_vec()))
    );
}
