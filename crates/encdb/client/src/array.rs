//! Arrays as PostgreSQL sends and shows them, of whatever their elements are.
//!
//! The module is pure. Its caller seals and opens the elements one by one: the server sees how
//! many there are and which are NULL, as it does of columns. No error holds a part of what was
//! read.

mod text;

use crate::ClientError;

/// The most dimensions that PostgreSQL has.
const MAX_DIMENSIONS: usize = 6;

/// One dimension.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Dimension {
    length: i32,
    lower: i32,
}

/// Elements in the order of their subscripts, the last of which runs fastest; none is NULL.
#[derive(Debug, PartialEq, Eq)]
pub struct Array<T> {
    dimensions: Vec<Dimension>,
    items: Vec<Option<T>>,
}

impl<T> Array<T> {
    /// Returns an array of one dimension, which begins at 1.
    pub fn new(items: Vec<Option<T>>) -> Self {
        let length = i32::try_from(items.len()).unwrap_or(i32::MAX);
        let dimension = Dimension { length, lower: 1 };
        let dimensions = match length {
            0 => Vec::new(),
            _ => vec![dimension],
        };
        Self { dimensions, items }
    }

    /// Returns the elements.
    pub fn items(&self) -> &[Option<T>] {
        &self.items
    }

    /// Returns an array of the same form with the result of `with` for each element; NULL stays
    /// NULL.
    pub fn map<U, E>(&self, mut with: impl FnMut(&T) -> Result<U, E>) -> Result<Array<U>, E> {
        let mut item = |item: &Option<T>| item.as_ref().map(&mut with).transpose();
        Ok(Array {
            dimensions: self.dimensions.clone(),
            items: self.items.iter().map(&mut item).collect::<Result<_, E>>()?,
        })
    }
}

impl<'a> Array<&'a [u8]> {
    /// Reads PostgreSQL's send format; elements are as they were sent.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, ClientError> {
        let mut rest = bytes;
        let array = Self::take(&mut rest).filter(|_| rest.is_empty());
        array.ok_or(ClientError::Array)
    }

    fn take(rest: &mut &'a [u8]) -> Option<Self> {
        let (count, _flags, _type) = (int(rest)?, int(rest)?, int(rest)?);
        let count = usize::try_from(count).ok()?;
        if count > MAX_DIMENSIONS {
            return None;
        }
        let (mut dimensions, mut number) = (Vec::new(), usize::from(count > 0));
        for _ in 0..count {
            let (length, lower) = (int(rest)?, int(rest)?);
            number = number.checked_mul(usize::try_from(length).ok()?)?;
            dimensions.push(Dimension { length, lower });
        }
        let mut items = Vec::new();
        for _ in 0..number {
            items.push(match int(rest)? {
                -1 => None,
                length => Some(slice(rest, usize::try_from(length).ok()?)?),
            });
        }
        Some(Self { dimensions, items })
    }
}

impl<T: AsRef<[u8]>> Array<T> {
    /// Appends PostgreSQL's send format, with elements of this type. Fails if it is too long.
    pub fn encode(&self, oid: u32, into: &mut Vec<u8>) -> Result<(), ClientError> {
        let length = |length: usize| i32::try_from(length).map_err(|_| ClientError::Array);
        into.extend_from_slice(&length(self.dimensions.len())?.to_be_bytes());
        let has_null = self.items.iter().any(Option::is_none);
        into.extend_from_slice(&i32::from(has_null).to_be_bytes());
        into.extend_from_slice(&oid.to_be_bytes());
        for dimension in &self.dimensions {
            into.extend_from_slice(&dimension.length.to_be_bytes());
            into.extend_from_slice(&dimension.lower.to_be_bytes());
        }
        for item in &self.items {
            match item.as_ref().map(AsRef::as_ref) {
                None => into.extend_from_slice(&(-1i32).to_be_bytes()),
                Some(bytes) => {
                    into.extend_from_slice(&length(bytes.len())?.to_be_bytes());
                    into.extend_from_slice(bytes);
                }
            }
        }
        Ok(())
    }
}

fn int(rest: &mut &[u8]) -> Option<i32> {
    let bytes = slice(rest, 4)?;
    Some(i32::from_be_bytes(bytes.try_into().ok()?))
}

fn slice<'a>(rest: &mut &'a [u8], length: usize) -> Option<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length)?;
    *rest = left;
    Some(taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wire_leads_there_and_back() {
        for text in ["{}", "{a,NULL,\"\"}", "{{1,2},{NULL,4}}", "[0:1]={x,y}"] {
            let array = Array::parse(text).expect("it is one");
            let mut bytes = Vec::new();
            array
                .map(|item| Ok::<_, ClientError>(item.as_bytes().to_vec()))
                .and_then(|array| array.encode(25, &mut bytes))
                .expect("it is short");
            let again = Array::decode(&bytes).expect("it was encoded so");
            let again = again.map(|item| std::str::from_utf8(item).map(str::to_owned));
            let shown = again.expect("UTF-8").to_text(|item| item.clone().into());
            assert_eq!(*shown, text);
            for cut in 0..bytes.len() {
                assert!(Array::decode(&bytes[..cut]).is_err(), "{text} {cut}");
            }
        }
    }

    #[test]
    fn numbers_that_are_too_large_are_refused() {
        let head = |count: i32, lengths: &[i32]| {
            let mut bytes: Vec<u8> = [count, 0, 25]
                .iter()
                .flat_map(|n| n.to_be_bytes())
                .collect();
            for length in lengths {
                bytes.extend_from_slice(&length.to_be_bytes());
                bytes.extend_from_slice(&1i32.to_be_bytes());
            }
            bytes
        };
        for bytes in [
            head(-1, &[]),
            head(7, &[1; 7]),
            head(1, &[-1]),
            head(1, &[i32::MAX]),
            head(6, &[i32::MAX; 6]),
        ] {
            assert!(Array::decode(&bytes).is_err());
        }
        assert!(Array::decode(&head(1, &[0])).is_ok());
    }

    #[test]
    fn a_list_begins_at_one() {
        let list = Array::new(vec![Some("a".to_owned()), None]);
        assert_eq!(*list.to_text(|item| item.clone().into()), "{a,NULL}");
        assert_eq!(
            *Array::<String>::new(Vec::new()).to_text(|_| String::new().into()),
            "{}"
        );
    }
}
