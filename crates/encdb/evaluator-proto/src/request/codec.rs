//! The bytes of requests.

use pgseal_cell::{DataKeyId, Type};
use pgseal_value::{AggregateKind, Arithmetic, Field, Interval};

use super::{opcode, AttachAs, Batch, Collation, Page, Request, Unary};
use crate::response::in_parts;
use crate::wire::{put_bytes, Malformed, Out, Reader};
use crate::{Items, Program};

impl<'a> Request<'a> {
    /// Reads a request.
    #[inline]
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        let mut reader = Reader::new(bytes);
        let opcode = reader.u8()?;
        let request = match opcode >> 4 {
            0 => session(opcode, &mut reader)?,
            1 => comparison(opcode, &mut reader)?,
            2 => operation(opcode, &mut reader)?,
            3 => aggregate(opcode, &mut reader)?,
            4 => conversion(opcode, &mut reader)?,
            _ => return Err(Malformed),
        };
        reader.end()?;
        Ok(request)
    }

    /// Its bytes, one after the other.
    pub(super) fn put(&self, into: &mut impl Out) {
        match *self {
            Self::Attach { .. }
            | Self::Tickets
            | Self::Message(_)
            | Self::LoadKeys(_)
            | Self::Status => self.put_session(into),
            Self::Compare { .. }
            | Self::SearchPage { .. }
            | Self::Hash { .. }
            | Self::Descend { .. }
            | Self::Rank { .. }
            | Self::OrderPrefix(_) => self.put_comparison(into),
            Self::AggregateStep { .. }
            | Self::AggregateCombine { .. }
            | Self::AggregateExport(_)
            | Self::AggregateImport(_)
            | Self::AggregateFinish { .. }
            | Self::AggregateDrop(_) => self.put_aggregate(into),
            Self::Encrypt { .. } | Self::Decrypt(_) | Self::GenerateKey { .. } => {
                self.put_conversion(into);
            }
            _ => self.put_operation(into),
        }
    }

    fn put_session(&self, into: &mut impl Out) {
        match *self {
            Self::Attach {
                kind,
                database,
                role,
            } => {
                let (kind, ticket) = match kind {
                    AttachAs::Client => (0, None),
                    AttachAs::ParallelWorker { ticket } => (1, Some(ticket)),
                    AttachAs::Background => (2, None),
                };
                into.extend_from_slice(&[opcode::ATTACH, kind]);
                into.extend_from_slice(&database);
                into.extend_from_slice(&role.to_le_bytes());
                ticket
                    .iter()
                    .for_each(|ticket| into.extend_from_slice(ticket));
            }
            Self::Tickets => into.push(opcode::TICKETS),
            Self::Message(message) => {
                into.push(opcode::MESSAGE);
                put_bytes(into, message);
            }
            Self::LoadKeys(rows) => {
                into.push(opcode::LOAD_KEYS);
                rows.write(into);
            }
            _ => into.push(opcode::STATUS),
        }
    }

    fn put_comparison(&self, into: &mut impl Out) {
        match *self {
            Self::Compare {
                collation,
                left,
                right,
            } => {
                into.push(opcode::COMPARE);
                put_collation(into, collation);
                put_bytes(into, left);
                put_bytes(into, right);
            }
            Self::SearchPage {
                collation,
                probe,
                cells,
            } => {
                into.push(opcode::SEARCH_PAGE);
                put_collation(into, collation);
                put_bytes(into, probe);
                cells.write(into);
            }
            Self::Hash { seed, cell } => {
                into.push(opcode::HASH);
                into.extend_from_slice(&seed.to_le_bytes());
                put_bytes(into, cell);
            }
            Self::Descend {
                collation,
                probe,
                index,
                block,
                page,
            } => {
                into.push(opcode::DESCEND);
                put_collation(into, collation);
                put_bytes(into, probe);
                into.extend_from_slice(&index);
                into.extend_from_slice(&block.to_le_bytes());
                put_page(into, page);
            }
            Self::Rank { collation, cells } => {
                into.push(opcode::RANK);
                put_collation(into, collation);
                cells.write(into);
            }
            Self::OrderPrefix(cell) => {
                into.push(opcode::ORDER_PREFIX);
                put_bytes(into, cell);
            }
            _ => unreachable!("encode sends comparisons here"),
        }
    }

    fn put_operation(&self, into: &mut impl Out) {
        match *self {
            Self::Arithmetic { op, left, right } => {
                into.extend_from_slice(&[opcode::ARITHMETIC, operator(op)]);
                put_bytes(into, left);
                put_bytes(into, right);
            }
            Self::Unary {
                op,
                collation,
                cell,
            } => {
                into.extend_from_slice(&[opcode::UNARY, op as u8]);
                put_collation(into, collation);
                put_bytes(into, cell);
            }
            Self::Concat { left, right } => {
                into.push(opcode::CONCAT);
                put_bytes(into, left);
                put_bytes(into, right);
            }
            Self::Like {
                insensitive,
                text,
                pattern,
            } => {
                into.extend_from_slice(&[opcode::LIKE, u8::from(insensitive.is_some())]);
                put_collation(into, insensitive.unwrap_or(Collation::C));
                put_bytes(into, text);
                put_bytes(into, pattern);
            }
            Self::LikeEscape { escape, pattern } => {
                into.push(opcode::LIKE_ESCAPE);
                put_bytes(into, escape.as_bytes());
                put_bytes(into, pattern);
            }
            Self::AddInterval { interval, cell } => {
                into.push(opcode::ADD_INTERVAL);
                into.extend_from_slice(&interval.months.to_le_bytes());
                into.extend_from_slice(&interval.days.to_le_bytes());
                into.extend_from_slice(&interval.microseconds.to_le_bytes());
                put_bytes(into, cell);
            }
            Self::Substring { from, len, cell } => {
                into.extend_from_slice(&[opcode::SUBSTRING, u8::from(len.is_some())]);
                into.extend_from_slice(&from.to_le_bytes());
                into.extend_from_slice(&len.unwrap_or(0).to_le_bytes());
                put_bytes(into, cell);
            }
            Self::Length(cell) => {
                into.push(opcode::LENGTH);
                put_bytes(into, cell);
            }
            Self::Extract { field, cell } => {
                into.extend_from_slice(&[opcode::EXTRACT, field as u8]);
                put_bytes(into, cell);
            }
            Self::Cast { to, cell } => {
                into.extend_from_slice(&[opcode::CAST, to as u8]);
                put_bytes(into, cell);
            }
            Self::Compute { program, operands } => {
                into.push(opcode::COMPUTE);
                put_bytes(into, program.bytes());
                operands.write(into);
            }
            _ => unreachable!("encode sends operations here"),
        }
    }

    fn put_aggregate(&self, into: &mut impl Out) {
        match *self {
            Self::AggregateStep { state, batch } => {
                put_handle(into, opcode::AGGREGATE_STEP, state);
                put_batch(into, batch);
            }
            Self::AggregateFinish {
                state,
                batch,
                stays,
            } => {
                put_handle(into, opcode::AGGREGATE_FINISH, state);
                into.push(u8::from(stays));
                put_batch(into, batch);
            }
            Self::AggregateCombine { into: stays, from } => {
                into.push(opcode::AGGREGATE_COMBINE);
                into.extend_from_slice(&stays.to_le_bytes());
                into.extend_from_slice(&from.to_le_bytes());
            }
            Self::AggregateImport(bytes) => {
                into.push(opcode::AGGREGATE_IMPORT);
                put_bytes(into, bytes);
            }
            Self::AggregateExport(state) => put_handle(into, opcode::AGGREGATE_EXPORT, state),
            Self::AggregateDrop(state) => put_handle(into, opcode::AGGREGATE_DROP, state),
            _ => unreachable!("encode sends aggregates here"),
        }
    }

    fn put_conversion(&self, into: &mut impl Out) {
        match *self {
            Self::Encrypt { key, ty, plain } => {
                into.extend_from_slice(&[opcode::ENCRYPT, ty as u8]);
                into.extend_from_slice(&key.0.to_le_bytes());
                put_bytes(into, plain);
            }
            Self::Decrypt(cell) => {
                into.push(opcode::DECRYPT);
                put_bytes(into, cell);
            }
            Self::GenerateKey {
                name,
                group,
                deterministic,
            } => {
                into.extend_from_slice(&[opcode::GENERATE_KEY, u8::from(deterministic)]);
                into.extend_from_slice(&group.to_le_bytes());
                put_bytes(into, name.as_bytes());
            }
            _ => unreachable!("encode sends conversions here"),
        }
    }
}

fn session<'a>(opcode: u8, reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match opcode {
        opcode::ATTACH => {
            let (kind, database, role) = (reader.u8()?, reader.array()?, reader.u32()?);
            let kind = match kind {
                0 => AttachAs::Client,
                1 => AttachAs::ParallelWorker {
                    ticket: reader.array()?,
                },
                2 => AttachAs::Background,
                _ => return Err(Malformed),
            };
            Request::Attach {
                kind,
                database,
                role,
            }
        }
        opcode::TICKETS => Request::Tickets,
        opcode::MESSAGE => Request::Message(reader.bytes()?),
        opcode::LOAD_KEYS => Request::LoadKeys(Items::read(reader)?),
        opcode::STATUS => Request::Status,
        _ => return Err(Malformed),
    })
}

#[inline]
fn comparison<'a>(opcode: u8, reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match opcode {
        opcode::COMPARE => Request::Compare {
            collation: collation(reader)?,
            left: reader.bytes()?,
            right: reader.bytes()?,
        },
        opcode::SEARCH_PAGE => Request::SearchPage {
            collation: collation(reader)?,
            probe: reader.bytes()?,
            cells: Items::read(reader)?,
        },
        opcode::HASH => Request::Hash {
            seed: reader.u64()?,
            cell: reader.bytes()?,
        },
        opcode::DESCEND => Request::Descend {
            collation: collation(reader)?,
            probe: reader.bytes()?,
            index: reader.array()?,
            block: reader.u32()?,
            page: page(reader)?,
        },
        opcode::RANK => Request::Rank {
            collation: collation(reader)?,
            cells: Items::read(reader)?,
        },
        opcode::ORDER_PREFIX => Request::OrderPrefix(reader.bytes()?),
        _ => return Err(Malformed),
    })
}

fn operation<'a>(opcode: u8, reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match opcode {
        opcode::ARITHMETIC => Request::Arithmetic {
            op: arithmetic(reader.u8()?)?,
            left: reader.bytes()?,
            right: reader.bytes()?,
        },
        opcode::UNARY => Request::Unary {
            op: unary(reader.u8()?)?,
            collation: collation(reader)?,
            cell: reader.bytes()?,
        },
        opcode::CONCAT => Request::Concat {
            left: reader.bytes()?,
            right: reader.bytes()?,
        },
        opcode::LIKE => like(reader)?,
        opcode::SUBSTRING => {
            let bounded = reader.flag()?;
            let (from, len) = (reader.i32()?, reader.i32()?);
            let cell = reader.bytes()?;
            let len = optional(bounded, len, 0)?;
            Request::Substring { from, len, cell }
        }
        opcode::LENGTH => Request::Length(reader.bytes()?),
        opcode::EXTRACT => Request::Extract {
            field: field(reader.u8()?)?,
            cell: reader.bytes()?,
        },
        opcode::CAST => Request::Cast {
            to: ty(reader.u8()?)?,
            cell: reader.bytes()?,
        },
        opcode::LIKE_ESCAPE => Request::LikeEscape {
            escape: reader.text()?,
            pattern: reader.bytes()?,
        },
        opcode::ADD_INTERVAL => Request::AddInterval {
            interval: interval(reader)?,
            cell: reader.bytes()?,
        },
        opcode::COMPUTE => {
            let (program, operands) = (reader.bytes()?, Items::read(reader)?);
            let program = Program::parse(program, operands.len())?;
            Request::Compute { program, operands }
        }
        _ => return Err(Malformed),
    })
}

fn like<'a>(reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    let insensitive = reader.flag()?;
    let collation = collation(reader)?;
    Ok(Request::Like {
        insensitive: optional(insensitive, collation, Collation::C)?,
        text: reader.bytes()?,
        pattern: reader.bytes()?,
    })
}

fn interval(reader: &mut Reader<'_>) -> Result<Interval, Malformed> {
    Ok(Interval {
        months: reader.i32()?,
        days: reader.i32()?,
        microseconds: reader.i64()?,
    })
}

fn aggregate<'a>(opcode: u8, reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match opcode {
        opcode::AGGREGATE_STEP => Request::AggregateStep {
            state: reader.u64()?,
            batch: batch(reader)?,
        },
        opcode::AGGREGATE_COMBINE => Request::AggregateCombine {
            into: reader.u64()?,
            from: reader.u64()?,
        },
        opcode::AGGREGATE_EXPORT => Request::AggregateExport(reader.u64()?),
        opcode::AGGREGATE_IMPORT => Request::AggregateImport(reader.bytes()?),
        opcode::AGGREGATE_FINISH => {
            let (state, stays) = (reader.u64()?, reader.flag()?);
            let batch = batch(reader)?;
            Request::AggregateFinish {
                state,
                batch,
                stays,
            }
        }
        opcode::AGGREGATE_DROP => Request::AggregateDrop(reader.u64()?),
        _ => return Err(Malformed),
    })
}

fn batch<'a>(reader: &mut Reader<'a>) -> Result<Batch<'a>, Malformed> {
    Ok(Batch {
        kind: aggregate_kind(reader.u8()?)?,
        collation: collation(reader)?,
        cells: Items::read(reader)?,
    })
}

fn conversion<'a>(opcode: u8, reader: &mut Reader<'a>) -> Result<Request<'a>, Malformed> {
    Ok(match opcode {
        opcode::ENCRYPT => {
            let (ty, key) = (ty(reader.u8()?)?, DataKeyId(reader.u32()?));
            let plain = reader.bytes()?;
            Request::Encrypt { key, ty, plain }
        }
        opcode::DECRYPT => Request::Decrypt(reader.bytes()?),
        opcode::GENERATE_KEY => {
            let (deterministic, group) = (reader.flag()?, reader.u32()?);
            let name = reader.text()?;
            Request::GenerateKey {
                name,
                group,
                deterministic,
            }
        }
        _ => return Err(Malformed),
    })
}

/// `length u32 | name`; the empty name is C.
fn put_collation(into: &mut impl Out, collation: Collation<'_>) {
    let name = match collation {
        Collation::C => "",
        Collation::Libc(name) => name,
    };
    put_bytes(into, name.as_bytes());
}

#[inline]
fn collation<'a>(reader: &mut Reader<'a>) -> Result<Collation<'a>, Malformed> {
    Ok(match reader.text()? {
        "" => Collation::C,
        name => Collation::Libc(name),
    })
}

fn put_batch(into: &mut impl Out, batch: Batch<'_>) {
    into.push(batch.kind as u8);
    put_collation(into, batch.collation);
    batch.cells.write(into);
}

fn put_handle(into: &mut impl Out, opcode: u8, state: u64) {
    into.push(opcode);
    into.extend_from_slice(&state.to_le_bytes());
}

/// A value that is there or has the one spelling of its absence.
fn optional<T: PartialEq>(there: bool, value: T, absent: T) -> Result<Option<T>, Malformed> {
    match there {
        true => Ok(Some(value)),
        false if value == absent => Ok(None),
        false => Err(Malformed),
    }
}

fn operator(op: Arithmetic) -> u8 {
    match op {
        Arithmetic::Add => 1,
        Arithmetic::Sub => 2,
        Arithmetic::Mul => 3,
        Arithmetic::Div => 4,
        Arithmetic::Mod => 5,
        Arithmetic::Power => 6,
        Arithmetic::PowerSince16 => 7,
    }
}

fn put_page(into: &mut impl Out, page: Option<Page<'_>>) {
    into.push(u8::from(page.is_some()));
    if let Some(page) = page {
        page.cells.write(into);
        put_bytes(into, page.children);
        into.extend_from_slice(&page.right.to_le_bytes());
    }
}

fn page<'a>(reader: &mut Reader<'a>) -> Result<Option<Page<'a>>, Malformed> {
    Ok(match reader.flag()? {
        false => None,
        true => Some(Page {
            cells: Items::read(reader)?,
            children: in_parts(reader.bytes()?, 4)?,
            right: reader.u32()?,
        }),
    })
}

fn arithmetic(byte: u8) -> Result<Arithmetic, Malformed> {
    numbered(byte, &Arithmetic::ALL, operator)
}

fn unary(byte: u8) -> Result<Unary, Malformed> {
    const ALL: [Unary; 4] = [Unary::Negate, Unary::Absolute, Unary::Lower, Unary::Upper];
    numbered(byte, &ALL, |op| op as u8)
}

fn aggregate_kind(byte: u8) -> Result<AggregateKind, Malformed> {
    const ALL: [AggregateKind; 5] = [
        AggregateKind::Count,
        AggregateKind::Sum,
        AggregateKind::Avg,
        AggregateKind::Min,
        AggregateKind::Max,
    ];
    numbered(byte, &ALL, |kind| kind as u8)
}

fn field(byte: u8) -> Result<Field, Malformed> {
    const ALL: [Field; 22] = [
        Field::Century,
        Field::Day,
        Field::Decade,
        Field::Dow,
        Field::Doy,
        Field::Epoch,
        Field::Hour,
        Field::IsoDow,
        Field::IsoYear,
        Field::Julian,
        Field::Microseconds,
        Field::Millennium,
        Field::Milliseconds,
        Field::Minute,
        Field::Month,
        Field::Quarter,
        Field::Second,
        Field::Timezone,
        Field::TimezoneHour,
        Field::TimezoneMinute,
        Field::Week,
        Field::Year,
    ];
    numbered(byte, &ALL, |field| field as u8)
}

fn ty(byte: u8) -> Result<Type, Malformed> {
    Type::from_byte(byte).ok_or(Malformed)
}

fn numbered<T: Copy>(byte: u8, all: &[T], number: fn(T) -> u8) -> Result<T, Malformed> {
    let found = all.iter().copied().find(|each| number(*each) == byte);
    found.ok_or(Malformed)
}
