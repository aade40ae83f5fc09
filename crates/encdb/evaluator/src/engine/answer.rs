//! Requests as bytes: reads one, does it, writes the answer.

use pgseal_evaluator_proto::{
    AggregateRequest, Batch, ComparisonRequest, ConversionRequest, Items, OperationRequest,
    Refusal, Request, Response, SessionRequest, Status,
};

use super::{Connection, Start};

/// The longest answer: one value of PostgreSQL.
const MAX_ANSWER: usize = 1 << 30;
/// How often the bytes of a request are in memory at most while it is answered: with it, opened,
/// computed with, sealed, and in the answer. Beside that an answer takes what is small.
const COPIES: usize = 7;

/// The memory that a request of so many bytes takes at most with its answer.
pub const fn most_memory(request: usize) -> usize {
    request.saturating_mul(COPIES)
}

impl Connection {
    /// Answers one request, in place of what `response` held. Whatever comes in is answered.
    pub fn call(&mut self, request: &[u8], response: &mut Vec<u8>) {
        response.clear();
        let answered = Request::parse(request)
            .map_err(Refusal::from)
            .and_then(|request| self.answer(&request, response));
        let refusal = match answered {
            Ok(()) if response.len() <= MAX_ANSWER => return,
            Ok(()) => Refusal::TooLarge,
            Err(refusal) => refusal,
        };
        // Anyone who is turned away has no share of the log, either.
        if self.access.member.role().is_some() || refusal != Refusal::RoleShare {
            self.access.counts.refused(refusal);
        }
        zeroize::Zeroize::zeroize(response);
        Response::from(refusal).encode(response);
    }

    fn answer(&mut self, request: &Request<'_>, into: &mut Vec<u8>) -> Result<(), Refusal> {
        match *request {
            Request::Comparison(request) => self.answer_comparison(request, into),
            Request::Operation(request) => self.answer_operation(request, into),
            Request::Aggregate(request) => {
                let answered = self.answer_aggregate(request, into);
                self.states.settle();
                answered
            }
            Request::Conversion(request) => self.answer_conversion(request, into),
            Request::Session(request) => self.answer_session(request, into),
            Request::Each(request) => {
                let mut answers = Vec::new();
                self.each(request, &mut answers)?;
                let (count, bytes) = (request.count(), &answers[..]);
                Response::Each(Items::Received { count, bytes }).encode(into);
                Ok(())
            }
        }
    }

    #[inline]
    fn answer_comparison(
        &mut self,
        request: ComparisonRequest<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match request {
            ComparisonRequest::Compare {
                collation,
                left,
                right,
            } => {
                let collation = self.collation(collation)?;
                let order = self.compare(left, right, collation)?;
                Response::Order(order).encode(into);
            }
            ComparisonRequest::SearchPage {
                collation,
                probe,
                cells,
            } => {
                let collation = self.collation(collation)?;
                let cells: Vec<&[u8]> = cells.iter().collect();
                let position = self.search_page(probe, &cells, collation)?;
                Response::Position(position).encode(into);
            }
            ComparisonRequest::Descend {
                collation,
                probe,
                index,
                block,
                page,
            } => {
                let collation = self.collation(collation)?;
                let start = Start { index, block, page };
                let found = self.descend(probe, start, collation)?;
                let (count, bytes) = (found.count, &found.items[..]);
                Response::Findings(Items::Received { count, bytes }).encode(into);
            }
            ComparisonRequest::Rank { collation, cells } => {
                let collation = self.collation(collation)?;
                let cells: Vec<&[u8]> = cells.iter().collect();
                let ranks = self.rank(&cells, collation)?;
                let bytes: Vec<u8> = ranks.iter().flat_map(|rank| rank.to_le_bytes()).collect();
                Response::Ranks(&bytes).encode(into);
            }
            ComparisonRequest::Hash { seed, cell } => {
                Response::Hash(self.hash(seed, cell)?).encode(into);
            }
            ComparisonRequest::Tokens { parts, cell } => match self.tokens(parts, cell)? {
                Some(tokens) => {
                    let bytes = tokens.iter().flat_map(|token| token.to_le_bytes());
                    Response::Tokens(&bytes.collect::<Vec<u8>>()).encode(into);
                }
                None => Response::Null.encode(into),
            },
            ComparisonRequest::HasPrefix(cell) => {
                Response::Truth(self.has_prefix(cell)?).encode(into);
            }
            ComparisonRequest::OrderPrefix(cell) => {
                Response::Hash(self.order_prefix(cell)?).encode(into);
            }
        }
        Ok(())
    }

    fn answer_operation(
        &mut self,
        request: OperationRequest<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut cell_out = Vec::new();
        let out = &mut cell_out;
        let there = match request {
            OperationRequest::Like {
                matching,
                text,
                pattern,
            } => {
                let truth = self.matches(matching, text, pattern)?;
                Response::Truth(truth).encode(into);
                return Ok(());
            }
            OperationRequest::Arithmetic { op, left, right } => {
                self.arithmetic(op, left, right, out).map(|()| true)?
            }
            OperationRequest::Concat { left, right } => {
                self.concat(left, right, out).map(|()| true)?
            }
            OperationRequest::Unary { op, cell } => self.apply(op, cell, out)?,
            OperationRequest::AddInterval { interval, cell } => {
                self.add_interval(interval, cell, out)?
            }
            OperationRequest::LikeEscape { escape, pattern } => {
                self.like_escape(pattern, escape, out)?
            }
            OperationRequest::Length(cell) => self.length(cell, out)?,
            OperationRequest::Cast { to, cell } => self.cast(to, cell, out)?,
            OperationRequest::Compute { program, operands } => {
                self.compute(program, operands, out)?
            }
        };
        encode_cell(there, out, into);
        Ok(())
    }

    fn answer_aggregate(
        &mut self,
        request: AggregateRequest<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        let mut out = Vec::new();
        match request {
            AggregateRequest::Step { state, batch } => {
                Response::Number(self.take_batch(state, batch)?).encode(into);
            }
            AggregateRequest::Combine { into: stays, from } => {
                self.aggregate_combine(stays, from)?;
                Response::Done.encode(into);
            }
            AggregateRequest::Export(state) => {
                self.aggregate_export(state, &mut out)?;
                Response::Bytes(&out).encode(into);
            }
            AggregateRequest::Import(sealed) => {
                Response::Number(self.aggregate_import(sealed)?).encode(into);
            }
            AggregateRequest::Finish {
                state,
                batch,
                stays,
            } => {
                let there = self.result(state, batch, stays, &mut out)?;
                encode_cell(there, &out, into);
            }
            AggregateRequest::Drop(state) => {
                self.aggregate_drop(state)?;
                Response::Done.encode(into);
            }
        }
        Ok(())
    }

    fn answer_conversion(
        &mut self,
        request: ConversionRequest<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match request {
            ConversionRequest::Encrypt { key, ty, plain } => {
                let mut cell = Vec::new();
                self.encrypt(key, ty, plain, &mut cell)?;
                Response::Cell(&cell).encode(into);
            }
            ConversionRequest::Decrypt(cell) => {
                let mut plain = zeroize::Zeroizing::new(Vec::new());
                self.decrypt_to(cell, &mut plain)?;
                Response::Bytes(&plain).encode(into);
            }
            ConversionRequest::GenerateKey {
                name,
                group,
                deterministic,
            } => {
                let wrapped = self.generate_key(name, group, deterministic)?;
                Response::Bytes(&wrapped).encode(into);
            }
        }
        Ok(())
    }

    fn take_batch(&mut self, state: u64, batch: Batch<'_>) -> Result<u64, Refusal> {
        let collation = self.collation(batch.collation)?;
        self.aggregate_step(state, batch.kind, collation, batch.inputs()?)
    }

    /// Appends the cell of a result; false if there is none.
    fn result(
        &mut self,
        state: u64,
        batch: Batch<'_>,
        stays: bool,
        out: &mut Vec<u8>,
    ) -> Result<bool, Refusal> {
        match stays {
            false => {
                let collation = self.collation(batch.collation)?;
                self.aggregate_end(state, batch.kind, collation, batch.inputs()?, out)
            }
            // No caller would know the number of a state that begins here.
            true if state == 0 => Err(Refusal::UnknownState),
            true => {
                if !batch.is_empty() {
                    self.take_batch(state, batch)?;
                }
                self.aggregate_finish(state, out)
            }
        }
    }

    fn answer_session(
        &mut self,
        request: SessionRequest<'_>,
        into: &mut Vec<u8>,
    ) -> Result<(), Refusal> {
        match request {
            SessionRequest::Attach {
                kind,
                database,
                role,
            } => {
                self.attach_for(role, kind, database)?;
                Response::Done.encode(into);
            }
            SessionRequest::Tickets => Response::Tickets(self.tickets()?).encode(into),
            SessionRequest::Message(message) => {
                let mut answer = Vec::new();
                self.message(message, &mut answer)?;
                Response::Bytes(&answer).encode(into);
            }
            SessionRequest::LoadKeys(rows) => {
                Response::Number(self.load_keys(rows.iter())?.into()).encode(into);
            }
            SessionRequest::Status => self.status(into),
        }
        Ok(())
    }

    /// Answers with figures of the engine and of this connection.
    fn status(&mut self, into: &mut Vec<u8>) {
        let open = self.has_session();
        let expires = match (&self.access.session, open) {
            (Some(session), true) => session.read().expires,
            _ => 0,
        };
        let counters: Vec<Vec<u8>> = self
            .access
            .shared
            .totals()
            .iter()
            .map(|(name, count)| [name.as_bytes(), &count.to_le_bytes()].concat())
            .collect();
        let counters: Vec<&[u8]> = counters.iter().map(Vec::as_slice).collect();
        Response::Status(Status {
            backend: self.access.shared.config.evidence.back_end(),
            open,
            expires,
            keys: u32::try_from(self.access.view.keys.len()).unwrap_or(u32::MAX),
            counters: Items::Listed(&counters),
        })
        .encode(into);
    }
}

fn encode_cell(there: bool, cell: &[u8], into: &mut Vec<u8>) {
    match there {
        true => Response::Cell(cell).encode(into),
        false => Response::Null.encode(into),
    }
}
