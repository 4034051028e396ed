//! The inputs of a Terraform run: announced in Start, sent in Chunk frames, and taken only as announced.

use std::collections::VecDeque;

use prost::bytes::Bytes;
use sandbox_proto::runner::v1::input::Kind;
use sandbox_proto::runner::v1::terraform::Mode;
use sandbox_proto::runner::v1::{Input, Terraform};
use sha2::{Digest as _, Sha256};
use zeroize::{Zeroize as _, Zeroizing};

/// The longest piece of an input in one frame, in bytes.
pub const MAX_CHUNK_BYTES: usize = 1024 * 1024;

/// Why inputs are not taken. Never says what is in them.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum InputError {
    /// No mode, or one this runner does not know.
    #[error("the work's mode is none this runner knows")]
    Mode,
    /// An input this mode has no use for, one that comes twice, or after one it should precede.
    #[error("input {0} is announced where this mode does not take it")]
    Order(&'static str),
    /// An input this mode cannot do without.
    #[error("input {0} is not announced, and this mode needs it")]
    Missing(&'static str),
    /// Larger than that input may be, or empty.
    #[error("input {name} is announced with {size} bytes; it may have 1 to {max}")]
    Size {
        /// Which input.
        name: &'static str,
        /// What was announced.
        size: u64,
        /// What would do.
        max: u64,
    },
    /// A digest that is none.
    #[error("input {0} is announced without a SHA-256 of 32 bytes")]
    Digest(&'static str),
    /// The bytes are not those that were announced.
    #[error("input {0} does not have the SHA-256 it was announced with")]
    Differs(&'static str),
}

/// A Chunk frame that has no place.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum ChunkError {
    /// No bytes.
    #[error("an empty chunk")]
    Empty,
    /// Over [`MAX_CHUNK_BYTES`].
    #[error("a chunk of {0} bytes, over the limit of {MAX_CHUNK_BYTES}")]
    TooLong(usize),
    /// More than the announced input still lacks.
    #[error("a chunk that goes beyond the end of its input")]
    Beyond,
}

/// Everything that came, checked.
#[derive(Default)]
pub struct Inputs {
    /// The packed source tree.
    pub bundle: Zeroizing<Vec<u8>>,
    /// The state, if there is one.
    pub state: Option<Zeroizing<Vec<u8>>>,
    /// The plan file, in the modes that use one.
    pub plan: Option<Zeroizing<Vec<u8>>>,
    /// Values of secret variables as one JSON object, if there are any.
    pub variables: Option<Zeroizing<Vec<u8>>>,
}

/// Takes chunks until everything announced is there.
pub struct Intake {
    announced: VecDeque<Announced>,
    taken: Vec<(Announced, Zeroizing<Vec<u8>>)>,
    current: Zeroizing<Vec<u8>>,
}

struct Announced {
    kind: Kind,
    size: usize,
    sha256: [u8; 32],
}

impl Intake {
    /// Checks what `work` announces.
    ///
    /// # Errors
    /// [`InputError`], by the input at fault.
    pub fn announced(work: &Terraform) -> Result<Self, InputError> {
        let (takes, needs) = inputs_of(work.mode())?;
        let mut announced = VecDeque::new();
        let mut places = takes.iter();
        for input in &work.inputs {
            if !places.any(|&place| place == input.kind()) {
                return Err(InputError::Order(name(input.kind())));
            }
            announced.push_back(check(input)?);
        }
        for &needed in needs {
            if !announced.iter().any(|input| input.kind == needed) {
                return Err(InputError::Missing(name(needed)));
            }
        }
        let mut intake = Self {
            announced,
            taken: Vec::new(),
            current: Zeroizing::default(),
        };
        intake.begin();
        Ok(intake)
    }

    /// Whether every byte that was announced is there.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.announced.is_empty()
    }

    /// Takes one chunk, and wipes the frame it came in.
    ///
    /// # Errors
    /// [`ChunkError`]; nothing can be taken afterwards.
    pub fn take(&mut self, chunk: Bytes) -> Result<(), ChunkError> {
        let fits = match self.announced.front() {
            _ if chunk.is_empty() => Err(ChunkError::Empty),
            _ if chunk.len() > MAX_CHUNK_BYTES => Err(ChunkError::TooLong(chunk.len())),
            Some(input) if chunk.len() <= input.size - self.current.len() => Ok(input.size),
            _ => Err(ChunkError::Beyond),
        };
        let size = fits?;
        // The whole input has its room already: growing would leave copies behind.
        self.current.extend_from_slice(&chunk);
        if let Ok(mut chunk) = chunk.try_into_mut() {
            chunk.zeroize();
        }
        if self.current.len() == size
            && let Some(input) = self.announced.pop_front()
        {
            self.taken.push((input, std::mem::take(&mut self.current)));
            self.begin();
        }
        Ok(())
    }

    fn begin(&mut self) {
        if let Some(input) = self.announced.front() {
            self.current = Zeroizing::new(Vec::with_capacity(input.size));
        }
    }

    /// The inputs, if they are what was announced.
    ///
    /// # Errors
    /// [`InputError::Differs`], or [`InputError::Missing`] when not all of them came.
    pub fn finish(self) -> Result<Inputs, InputError> {
        if let Some(input) = self.announced.front() {
            return Err(InputError::Missing(name(input.kind)));
        }
        let mut inputs = Inputs::default();
        for (input, bytes) in self.taken {
            if Sha256::digest(bytes.as_slice()).as_slice() != input.sha256 {
                return Err(InputError::Differs(name(input.kind)));
            }
            match input.kind {
                Kind::Bundle => inputs.bundle = bytes,
                Kind::State => inputs.state = Some(bytes),
                Kind::Plan => inputs.plan = Some(bytes),
                Kind::Variables => inputs.variables = Some(bytes),
                Kind::Unspecified => return Err(InputError::Order(name(input.kind))),
            }
        }
        Ok(inputs)
    }
}

/// What a mode takes, in this order, and what of it must be there. A saved plan has its variables and
/// its state in it, so what only looks at one gets neither, and what applies one gets no variables.
fn inputs_of(mode: Mode) -> Result<(&'static [Kind], &'static [Kind]), InputError> {
    match mode {
        Mode::Plan => Ok((
            &[Kind::Bundle, Kind::State, Kind::Variables],
            &[Kind::Bundle],
        )),
        Mode::Apply => Ok((
            &[Kind::Bundle, Kind::State, Kind::Plan],
            &[Kind::Bundle, Kind::Plan],
        )),
        Mode::Facts => Ok((&[Kind::Bundle, Kind::Plan], &[Kind::Bundle, Kind::Plan])),
        Mode::Unspecified => Err(InputError::Mode),
    }
}

fn check(input: &Input) -> Result<Announced, InputError> {
    let kind = input.kind();
    let max = max_bytes(kind);
    let size = usize::try_from(input.size).unwrap_or(usize::MAX);
    if size == 0 || input.size > max {
        return Err(InputError::Size {
            name: name(kind),
            size: input.size,
            max,
        });
    }
    let sha256 = input.sha256.as_ref().try_into();
    let sha256 = sha256.map_err(|_| InputError::Digest(name(kind)))?;
    Ok(Announced { kind, size, sha256 })
}

/// What an input may have, in bytes.
const fn max_bytes(kind: Kind) -> u64 {
    const MIB: u64 = 1024 * 1024;
    match kind {
        Kind::Unspecified => 0,
        // 8 MiB of files, and what the archive puts around a thousand of them.
        Kind::Bundle => 10 * MIB,
        Kind::State | Kind::Plan => 32 * MIB,
        Kind::Variables => MIB / 4,
    }
}

const fn name(kind: Kind) -> &'static str {
    match kind {
        Kind::Unspecified => "of no kind",
        Kind::Bundle => "BUNDLE",
        Kind::State => "STATE",
        Kind::Plan => "PLAN",
        Kind::Variables => "VARIABLES",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(kind: Kind, bytes: &[u8]) -> Input {
        Input {
            kind: kind.into(),
            size: bytes.len() as u64,
            sha256: Sha256::digest(bytes).to_vec().into(),
        }
    }

    fn work(mode: Mode, inputs: &[(Kind, &[u8])]) -> Terraform {
        Terraform {
            mode: mode.into(),
            inputs: inputs
                .iter()
                .map(|(kind, bytes)| input(*kind, bytes))
                .collect(),
            ..Terraform::default()
        }
    }

    #[test]
    fn inputs_come_in_any_pieces_and_none_crosses_an_end() {
        let work = work(
            Mode::Plan,
            &[(Kind::Bundle, b"bundle"), (Kind::Variables, b"{}")],
        );
        let mut intake = Intake::announced(&work).unwrap();
        for chunk in [&b"bun"[..], b"dl", b"e", b"{}"] {
            assert!(!intake.is_complete());
            intake.take(Bytes::copy_from_slice(chunk)).unwrap();
        }
        assert!(intake.is_complete());
        assert_eq!(
            intake.take(Bytes::from_static(b"x")),
            Err(ChunkError::Beyond)
        );
        let inputs = intake.finish().unwrap();
        assert_eq!(inputs.bundle.as_slice(), b"bundle");
        assert_eq!(inputs.variables.unwrap().as_slice(), b"{}");
        assert!(inputs.state.is_none() && inputs.plan.is_none());

        let mut intake = Intake::announced(&work).unwrap();
        assert_eq!(
            intake.take(Bytes::from_static(b"bundle{}")),
            Err(ChunkError::Beyond)
        );
        assert_eq!(intake.take(Bytes::new()), Err(ChunkError::Empty));
        let long = Bytes::from(vec![0; MAX_CHUNK_BYTES + 1]);
        assert_eq!(
            intake.take(long),
            Err(ChunkError::TooLong(MAX_CHUNK_BYTES + 1))
        );
        assert_eq!(intake.finish().err(), Some(InputError::Missing("BUNDLE")));
    }

    #[test]
    fn bytes_that_are_not_the_announced_ones_are_refused() {
        let work = work(Mode::Plan, &[(Kind::Bundle, b"bundle")]);
        let mut intake = Intake::announced(&work).unwrap();
        intake.take(Bytes::from_static(b"bundlE")).unwrap();
        assert_eq!(intake.finish().err(), Some(InputError::Differs("BUNDLE")));
    }

    #[test]
    fn what_a_mode_does_not_take_is_refused() {
        use Kind::{Bundle, Plan, State, Variables};
        let order = |name| Some(InputError::Order(name));
        let missing = |name| Some(InputError::Missing(name));
        for (mode, kinds, refused) in [
            (Mode::Unspecified, &[Bundle][..], Some(InputError::Mode)),
            (Mode::Plan, &[], missing("BUNDLE")),
            (Mode::Plan, &[Bundle, State, Variables], None),
            (Mode::Plan, &[Bundle, Bundle], order("BUNDLE")),
            (Mode::Plan, &[State, Bundle], order("BUNDLE")),
            (Mode::Plan, &[Bundle, Plan], order("PLAN")),
            (Mode::Apply, &[Bundle, State, Plan], None),
            (Mode::Apply, &[Bundle, State], missing("PLAN")),
            (Mode::Apply, &[Bundle, Plan, Variables], order("VARIABLES")),
            (Mode::Facts, &[Bundle, Plan], None),
            (Mode::Facts, &[Bundle, State, Plan], order("STATE")),
            (Mode::Facts, &[Bundle], missing("PLAN")),
        ] {
            let inputs: Vec<_> = kinds.iter().map(|&kind| (kind, &b"x"[..])).collect();
            let error = Intake::announced(&work(mode, &inputs)).err();
            assert_eq!(error, refused, "{mode:?} {kinds:?}");
        }
    }

    #[test]
    fn sizes_and_digests_are_checked_before_a_byte_is_taken() {
        for (kind, max) in [
            (Kind::Bundle, 10 * 1024 * 1024),
            (Kind::State, 32 * 1024 * 1024),
            (Kind::Variables, 256 * 1024),
        ] {
            for (size, refused) in [
                (0, true),
                (1, false),
                (max, false),
                (max + 1, true),
                (u64::MAX, true),
            ] {
                let mut sized = input(kind, b"");
                sized.size = size;
                let error = check(&sized).err();
                let expected = InputError::Size {
                    name: name(kind),
                    size,
                    max,
                };
                assert_eq!(error, refused.then_some(expected));
            }
        }
        let mut short = input(Kind::Bundle, b"x");
        short.sha256.truncate(31);
        assert_eq!(check(&short).err(), Some(InputError::Digest("BUNDLE")));
    }
}
