//! Messages of the driver.

use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, OnceLock};

use pgseal_client::Type;

use super::settings::Mentioned;
use super::twice::Twice;
use super::{Expected, Portal, Query, Relay, RelayError, Statement};
use crate::observer::Event;
use crate::refusal::Refusal;
use crate::sql::{analyze, deallocated, is_statement, Analysis, Kind, Parameter, Seal};
use crate::times::{SessionTimes, Times};
use crate::values::{self, Given, Keys, BINARY};
use crate::wire::{self, Bind, Frame, Frames, MessageError, Parse, Reader, Take, Writer};

/// A text that is no statement: the server answers with an error, as an application's error would.
const FAILS: &[u8] = b"pgseal_refused";
/// The functions of large objects (`pg_proc.dat`), which libpq and pgjdbc call by the protocol.
const OF_LARGE_OBJECTS: [u32; 16] = [
    715, 764, 765, 767, 952, 953, 954, 955, 956, 957, 958, 964, 1004, 3170, 3171, 3172,
];

impl Relay {
    /// Takes bytes that the driver sent.
    pub fn from_driver(&mut self, bytes: &[u8]) -> Result<(), RelayError> {
        self.driver.add(bytes);
        self.driver_messages()
    }

    /// Takes the messages of the driver that are there.
    pub(super) fn driver_messages(&mut self) -> Result<(), RelayError> {
        while !self.waits() {
            let mut driver = std::mem::take(&mut self.driver);
            let taken = self.driver_frame(&mut driver);
            self.driver = driver;
            if !taken? {
                break;
            }
        }
        Ok(())
    }

    /// Takes what comes next of the driver; false if more bytes must come.
    fn driver_frame(&mut self, driver: &mut Frames) -> Result<bool, RelayError> {
        let how = |tag| match tag {
            b'd' => Take::Parts,
            _ => Take::Whole,
        };
        match driver.next(how)? {
            Some(Frame::Message(message)) => {
                if matches!(message[0], b'Q' | b'E') {
                    self.keys.note(Event::Statement);
                }
                self.driver_message(message)?;
            }
            Some(Frame::Part { bytes, ends, .. }) => self.rows_from_driver(bytes, ends)?,
            None => return Ok(false),
        }
        Ok(true)
    }

    pub(super) fn driver_message(&mut self, message: &[u8]) -> Result<(), RelayError> {
        self.replay.keep(message);
        let tag = message[0];
        if self.drops_driver && !matches!(tag, b'S' | b'X') {
            return Ok(());
        }
        match tag {
            b'Q' => return self.query(message),
            b'P' => return self.parse(message),
            b'B' => return self.bind(message),
            b'F' => return self.function_call(message),
            b'D' => self.describe(message)?,
            b'E' => {
                let portal = self.portal(Reader::new(message).string()?);
                self.expected.push_back(Expected::Rows(portal));
            }
            b'C' => self.close(message)?,
            b'S' if self.copies.takes_rows() => {}
            b'S' => {
                self.drops_driver = false;
                self.expected.push_back(Expected::Ready);
            }
            b'c' | b'f' => return self.rows_end(message),
            _ => {}
        }
        self.to_server.extend_from_slice(message);
        Ok(())
    }

    fn analyzed(&self, text: &[u8]) -> Result<Analysis, Refusal> {
        let (text, is_utf8) = match self.catalog.is_empty() {
            true => (String::from_utf8_lossy(text), true),
            false => self.settings.read(text)?,
        };
        let seal = Sealing(&*self.keys);
        let analysis = analyze(&text, &self.catalog, self.statements.prepared(), &seal)?;
        if analysis.concerns && !is_utf8 {
            return Err(Refusal::Encoding);
        }
        if analysis.copies.iter().any(|it| it.plan.is_some()) {
            self.settings.check_rows()?;
        }
        Ok(analysis)
    }

    /// Takes what a statement prepares and defines.
    fn learn(&mut self, analysis: &mut Analysis, number: u64) {
        if !analysis.defined.is_empty() {
            let catalog = Arc::make_mut(&mut self.catalog);
            analysis.defined.drain(..).for_each(|it| catalog.define(it));
            self.statements.doubt_prepared();
        }
        for (name, prepared) in analysis.prepared.drain() {
            self.statements.prepare_in(number, name, prepared);
        }
    }

    /// Notes what the statements of a text may set.
    fn doubt(&mut self, text: &[u8]) {
        let mentioned = Mentioned::in_text(text);
        if mentioned.has_reading {
            self.settings.doubt(text);
        }
        if mentioned.has_times {
            self.keys.set_times(Times::unknown());
        }
    }

    fn query(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let text = Reader::new(message).string()?;
        self.doubt(text);
        let mut statement = Statement {
            deallocates: deallocates(text, Kind::of(text)),
            number: self.statements.next_number(),
            ..Statement::default()
        };
        let send = |text: &[u8]| {
            let mut writer = Writer::new(b'Q');
            writer.string(text);
            writer.end()
        };
        match self.analyzed(text) {
            Ok(mut analysis) => {
                self.learn(&mut analysis, statement.number);
                statement.copies = analysis.concerns.then_some(analysis.copies);
                match analysis.text {
                    None => self.to_server.extend_from_slice(message),
                    Some(text) => self.to_server.extend(send(text.as_bytes())?),
                }
            }
            Err(refusal) => {
                // Whatever the server makes of it, it takes no rows.
                statement.copies = Some(Vec::new());
                self.to_server.extend(send(FAILS)?);
                self.refuse(&refusal);
            }
        }
        self.expected.push_back(Expected::Query(Query {
            statement: Arc::new(statement),
            ..Query::default()
        }));
        Ok(())
    }

    fn parse(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let parse = Parse::read(message)?;
        self.doubt(parse.text);
        let mut analysis = match self.analyzed(parse.text) {
            Ok(analysis) => analysis,
            Err(refusal) => return self.refuse_in_pipeline(&refusal),
        };
        let number = self.statements.next_number();
        self.learn(&mut analysis, number);
        let kind = Kind::of(parse.text);
        let statement = Arc::new(Statement {
            may_copy: kind.may_copy,
            has_fixed_result: kind.has_fixed_result,
            copies: analysis.concerns.then_some(analysis.copies),
            parameters: analysis.parameters,
            literals: analysis.literals,
            declared: parse.types.clone(),
            deallocates: deallocates(parse.text, kind),
            number,
            text: parse.text.to_vec(),
            definitions: self.catalog.definitions().into(),
            ..Statement::default()
        });
        let named = self.statements.parse(parse.name, Arc::clone(&statement));
        self.expected.push_back(Expected::Parsed(named));
        if !analysis.concerns {
            self.to_server.extend_from_slice(message);
            return Ok(());
        }
        if let (Ok(name), false) = (std::str::from_utf8(parse.name), parse.name.is_empty()) {
            let prepared = Some(statement.prepared());
            self.statements.prepare(name.to_owned(), prepared);
        }
        let text = analysis.text.as_deref().map_or(parse.text, str::as_bytes);
        let types = statement.declared_to_server(&self.catalog);
        self.to_server
            .extend(wire::parse(parse.name, text, &types)?);
        self.to_server.extend(wire::describe_statement(parse.name)?);
        self.expected.push_back(Expected::Statement {
            of: statement,
            is_hidden: true,
        });
        Ok(())
    }

    /// Whether a statement is another one by what the driver has defined since.
    fn is_stale(&self, statement: &Statement) -> bool {
        let (now, read) = (self.catalog.definitions(), &statement.definitions);
        if statement.text.is_empty() || read.load(Relaxed) == now {
            return false;
        }
        let analysis = self.analyzed(&statement.text);
        let is_same = analysis.is_ok_and(|it| it.parameters == statement.parameters);
        if is_same {
            read.store(now, Relaxed);
        }
        !is_same
    }

    fn bind(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let bind = Bind::read(message)?;
        let statement = self.statements.find(bind.statement);
        let is_unknown = statement.is_none() && !bind.values.is_empty();
        let statement = statement.unwrap_or_default();
        let sealed = match statement.is_told_otherwise(&self.catalog) {
            _ if is_unknown && !self.catalog.is_empty() => {
                Err(Refusal::Undecided("a statement that is not known"))
            }
            true => Err(Refusal::Undecided(
                "a parameter that the server calls encrypted",
            )),
            false if self.has_statement(&bind, &statement) => Err(Refusal::Text),
            false if !bind.values.is_empty() && self.is_stale(&statement) => Err(Refusal::Stale),
            false if statement.is_encrypted() => self.sealed(&bind, &statement).map(Some),
            false => Ok(None),
        };
        let sealed = match sealed {
            Ok(sealed) => sealed,
            Err(refusal) => return self.refuse_in_pipeline(&refusal),
        };
        let given = bind.result_formats();
        let formats = statement.formats_to_ask(&given);
        let changed = match (sealed, &formats) {
            (None, None) => None,
            (sealed, formats) => {
                let values = sealed.unwrap_or_else(|| bind.as_given());
                Some(wire::bind(&bind, &values, formats.as_deref())?)
            }
        };
        let portal = Portal {
            statement,
            formats: formats.unwrap_or_else(|| given.clone()),
            given,
        };
        self.portals.insert(bind.portal.to_vec(), Arc::new(portal));
        let passes = changed.as_deref().unwrap_or(message);
        self.to_server.extend_from_slice(passes);
        self.expected.push_back(Expected::One(b'2'));
        Ok(())
    }

    /// Whether a parameter that is sent as it is is a statement with something encrypted.
    fn has_statement(&self, bind: &Bind<'_>, statement: &Statement) -> bool {
        if self.catalog.is_empty() {
            return false;
        }
        let stays = |at| {
            let used = statement.parameters.get(at);
            !matches!(used, Some(Parameter::Cells(..) | Parameter::OnlyNull(_)))
        };
        let values = bind.values.iter().enumerate();
        let mut values = values.filter_map(|(at, value)| value.filter(|_| stays(at)));
        values.any(|value| is_statement(value, &self.catalog))
    }

    /// Returns the values of `Bind`, with cells in place of those for encrypted columns.
    fn sealed(&self, bind: &Bind<'_>, statement: &Statement) -> Result<wire::Values, Refusal> {
        let (parameters, given) = (&statement.parameters, bind.values.len());
        if parameters.len() > given {
            let expected = parameters.len();
            return Err(Refusal::Parameters { expected, given });
        }
        let times = || self.keys.times();
        let mut twice = Twice::new(&statement.literals, parameters);
        let mut sealed = Vec::with_capacity(given);
        for (at, value) in bind.values.iter().enumerate() {
            let given = value.map(|bytes| Given {
                bytes,
                format: bind.format(at),
                oid: statement.declared.get(at).copied().unwrap_or_default(),
            });
            sealed.push(match (given, parameters.get(at)) {
                (Some(given), Some(Parameter::Cells(cells, conversion))) => {
                    if given.format != BINARY || cells.ty.is_none_or(|ty| ty == Type::Text) {
                        self.settings.check_text(given.bytes)?;
                    }
                    let element = self.catalog.oid_of(&cells.element());
                    let seal = |value: &_| {
                        twice.seal(value);
                        self.keys.seal(&cells.keyname, value)
                    };
                    let by_times: (SessionTimes<'_>, _) = (&times, seal);
                    let cell = values::sealed(&given, cells, *conversion, element, by_times)?;
                    (BINARY, Some(cell))
                }
                // The server learns whether it is null.
                (given, Some(Parameter::OnlyNull(_))) => (BINARY, given.map(|_| vec![1])),
                (given, used) => {
                    if let (Some(given), Some(used)) = (&given, used) {
                        twice.add(given, used, statement.told(at));
                    }
                    (bind.format(at), value.map(<[u8]>::to_vec))
                }
            });
        }
        match twice.is_it(&times) {
            true => Err(Refusal::Loose),
            false => Ok(sealed),
        }
    }

    /// Passes a call of a function of large objects: nothing says what others take.
    fn function_call(&mut self, message: &[u8]) -> Result<(), RelayError> {
        let function = Reader::new(message).int32()?;
        if !OF_LARGE_OBJECTS.contains(&function) && !self.catalog.is_empty() {
            let mut fails = Writer::new(b'Q');
            fails.string(FAILS);
            self.to_server.extend(fails.end()?);
            self.refuse(&Refusal::Undecided("a call of a function by the protocol"));
        } else {
            self.to_server.extend_from_slice(message);
        }
        self.expected.push_back(Expected::Query(Query::default()));
        Ok(())
    }

    fn describe(&mut self, message: &[u8]) -> Result<(), MessageError> {
        let mut reader = Reader::new(message);
        let (kind, name) = (reader.byte()?, reader.string()?);
        self.expected.push_back(match kind {
            b'S' => Expected::Statement {
                of: self.statements.find(name).unwrap_or_default(),
                is_hidden: false,
            },
            _ => Expected::Portal(self.portal(name)),
        });
        Ok(())
    }

    fn portal(&self, name: &[u8]) -> Arc<Portal> {
        self.portals.get(name).cloned().unwrap_or_default()
    }

    fn close(&mut self, message: &[u8]) -> Result<(), MessageError> {
        let mut reader = Reader::new(message);
        let (kind, name) = (reader.byte()?, reader.string()?);
        self.expected.push_back(match kind {
            b'S' => Expected::Closed(name.to_vec(), self.statements.close(name)),
            _ => {
                self.portals.remove(name);
                Expected::One(b'3')
            }
        });
        Ok(())
    }

    /// Puts the engine's error where the server's comes.
    fn refuse(&mut self, refusal: &Refusal) {
        self.keys.note(Event::Refused(refusal.sqlstate()));
        self.expected
            .push_back(Expected::Refused(refusal.response()));
    }

    /// Refuses in a pipeline, whose rest up to `Sync` the server passes over.
    fn refuse_in_pipeline(&mut self, refusal: &Refusal) -> Result<(), RelayError> {
        self.to_server.extend(wire::parse(b"", FAILS, &[])?);
        self.refuse(refusal);
        self.drops_driver = true;
        Ok(())
    }
}

/// Returns the name of the statement that a text deallocates; empty: all.
fn deallocates(text: &[u8], kind: Kind) -> Option<String> {
    kind.may_deallocate.then(|| deallocated(text)).flatten()
}

/// Seals by the owner's keys.
struct Sealing<'k>(&'k (dyn Keys + Send + Sync));

impl Seal for Sealing<'_> {
    fn seal(&self, keyname: &str, value: &pgseal_value::Value) -> Result<Vec<u8>, Refusal> {
        self.0.seal(keyname, value)
    }

    fn times(&self) -> Times {
        self.0.times()
    }
}

impl Portal {
    /// Returns the result of one statement of a simple query.
    pub(super) fn of_query(columns: super::Columns, formats: Vec<u16>) -> Self {
        let known = OnceLock::new();
        let _ = known.set(columns);
        Self {
            statement: Arc::new(Statement {
                columns: known,
                ..Statement::default()
            }),
            given: formats.clone(),
            formats,
        }
    }
}
