//! Where in the trail to look, at about one byte of memory an event.
//!
//! The trail is cut into blocks of 256 lines. Of each the index keeps where it begins and the requests
//! that have events in it, eight bytes a request. Ids begin with the time they were made, so a request
//! and its neighbours stand in one block or two.

use sandbox_core::audit::{RequestPrefix, Seq, request_key};
use sandbox_core::ids::RequestId;

const BLOCK_LINES: u64 = 256;

/// A stretch of the file that begins and ends with whole lines.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Span {
    /// Where it begins.
    pub(super) start: u64,
    /// Where it ends.
    pub(super) end: u64,
}

/// The index of a trail, grown line by line.
#[derive(Debug, Default)]
pub(super) struct Index {
    blocks: Vec<Block>,
    lines: u64,
    size: u64,
}

#[derive(Debug)]
struct Block {
    start: u64,
    /// Sorted.
    requests: Vec<u64>,
}

impl Index {
    /// Takes the next line: the request it is of, and its length with its LF.
    pub(super) fn push(&mut self, request: Option<RequestId>, length: u64) {
        if self.lines.is_multiple_of(BLOCK_LINES) {
            if let Some(full) = self.blocks.last_mut() {
                full.requests.shrink_to_fit();
            }
            self.blocks.push(Block {
                start: self.size,
                requests: Vec::new(),
            });
        }
        self.lines += 1;
        self.size += length;
        if let (Some(id), Some(block)) = (request, self.blocks.last_mut()) {
            let key = request_key(id);
            if let Err(place) = block.requests.binary_search(&key) {
                block.requests.insert(place, key);
            }
        }
    }

    /// How long the indexed part of the file is.
    pub(super) fn size(&self) -> u64 {
        self.size
    }

    /// The rest of the file from the block that `seq` stands in; empty past the end.
    pub(super) fn from(&self, seq: Seq) -> Span {
        let start = self
            .block_of(seq)
            .map_or(self.size, |block| self.span(block).start);
        Span {
            start,
            end: self.size,
        }
    }

    /// The block that `seq` stands in.
    pub(super) fn around(&self, seq: Seq) -> Option<Span> {
        self.block_of(seq).map(|block| self.span(block))
    }

    /// Every block with events of a request whose id begins so, those before `after` left out.
    pub(super) fn of(&self, prefix: &RequestPrefix, after: Seq) -> Vec<Span> {
        let keys = prefix.keys();
        let first = self.block_of(after.next()).unwrap_or(self.blocks.len());
        let has = |block: &Block| {
            let place = block.requests.partition_point(|key| key < keys.start());
            block
                .requests
                .get(place)
                .is_some_and(|key| keys.contains(key))
        };
        let found = (first..self.blocks.len()).filter(|block| has(&self.blocks[*block]));
        found.map(|block| self.span(block)).collect()
    }

    fn block_of(&self, seq: Seq) -> Option<usize> {
        let line = seq.0.checked_sub(1).filter(|line| *line < self.lines)?;
        usize::try_from(line / BLOCK_LINES).ok()
    }

    fn span(&self, block: usize) -> Span {
        let end = self
            .blocks
            .get(block + 1)
            .map_or(self.size, |next| next.start);
        Span {
            start: self.blocks[block].start,
            end,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u64) -> RequestId {
        RequestId::new(1_772_357_400_000 + number, [7; 10])
    }

    /// Lines of ten bytes; nine of each request, in order.
    fn index(requests: u64) -> Index {
        let mut index = Index::default();
        for request in 0..requests {
            for _ in 0..9 {
                index.push(Some(id(request)), 10);
            }
        }
        index
    }

    #[test]
    fn a_request_is_looked_for_where_it_stands_and_nowhere_else() {
        let index = index(1_000);
        // Lines 253 to 261: over the edge of the first block.
        let spans = index.of(&id(28).to_string().parse().unwrap(), Seq(0));
        assert_eq!(
            spans,
            [
                Span {
                    start: 0,
                    end: 2560
                },
                Span {
                    start: 2560,
                    end: 5120
                }
            ]
        );
        let later = index.of(&id(28).to_string().parse().unwrap(), Seq(256));
        assert_eq!(
            later,
            [Span {
                start: 2560,
                end: 5120
            }]
        );
        assert_eq!(
            index.of(&id(1_000).to_string().parse().unwrap(), Seq(0)),
            []
        );
        assert_eq!(
            index
                .of(&id(0).to_string()[..8].parse().unwrap(), Seq(0))
                .len(),
            36
        );
    }

    #[test]
    fn every_place_is_in_its_block() {
        let index = index(57); // 513 lines
        assert_eq!(index.around(Seq(0)), None);
        assert_eq!(
            index.around(Seq(1)),
            Some(Span {
                start: 0,
                end: 2560
            })
        );
        assert_eq!(
            index.around(Seq(256)),
            Some(Span {
                start: 0,
                end: 2560
            })
        );
        assert_eq!(
            index.around(Seq(257)),
            Some(Span {
                start: 2560,
                end: 5120
            })
        );
        assert_eq!(
            index.around(Seq(513)),
            Some(Span {
                start: 5120,
                end: 5130
            })
        );
        assert_eq!(index.around(Seq(514)), None);
        assert_eq!(
            index.from(Seq(513)),
            Span {
                start: 5120,
                end: 5130
            }
        );
        assert_eq!(
            index.from(Seq(514)),
            Span {
                start: 5130,
                end: 5130
            }
        );
        assert_eq!(
            index.from(Seq(u64::MAX)),
            Span {
                start: 5130,
                end: 5130
            }
        );
    }

    #[test]
    fn ten_thousand_calls_take_little_memory() {
        let index = index(10_000);
        let bytes: usize = index
            .blocks
            .iter()
            .map(|b| size_of::<Block>() + b.requests.capacity() * 8)
            .sum();
        assert!(bytes < 150_000, "{bytes} bytes");
    }
}
