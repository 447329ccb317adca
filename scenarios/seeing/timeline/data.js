// What a timeline is made of: packed columns, an index of spans, and the axis with its folds.
"use strict";

const VALUES = new Uint8Array(128);
[..."ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"].forEach((one, digit) => {
  VALUES[one.charCodeAt(0)] = digit;
});

// The numbers of a packed column: see packing.py.
function unpacked(text) {
  const found = new Float64Array(text.length);
  let count = 0, number = 0, factor = 1;
  for (let i = 0; i < text.length; i++) {
    const digit = VALUES[text.charCodeAt(i)];
    number += (digit & 31) * factor;
    factor *= 32;
    if (digit < 32) {
      found[count++] = number % 2 ? -(number - 1) / 2 : number / 2;
      number = 0;
      factor = 1;
    }
  }
  return found.slice(0, count);
}

function summed(numbers) {
  for (let i = 1; i < numbers.length; i++) numbers[i] += numbers[i - 1];
  return numbers;
}

// How many of `numbers`, which rise, are less than `limit`, or equal to it if `also`.
function below(numbers, limit, also = false) {
  let low = 0, high = numbers.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (numbers[middle] < limit || (also && numbers[middle] === limit)) low = middle + 1;
    else high = middle;
  }
  return low;
}

const BLOCK = 64;

// Spans by their beginnings, which rise; of each block the last end is known, so that most blocks are passed over.
class Spans {
  constructor(began, ended) {
    this.began = began;
    this.ended = ended;
    this.length = began.length;
    this.last = new Float64Array(Math.ceil(began.length / BLOCK));
    for (let i = 0; i < began.length; i++) {
      const block = (i / BLOCK) | 0;
      this.last[block] = Math.max(i % BLOCK ? this.last[block] : -1, ended[i]);
    }
  }

  // Calls `visit` with the number of each span that was there at any time between the two.
  each(begin, end, visit) {
    const count = below(this.began, end, true);
    for (let block = 0; block * BLOCK < count; block++) {
      if (this.last[block] < begin) continue;
      const stop = Math.min(count, (block + 1) * BLOCK);
      for (let i = block * BLOCK; i < stop; i++) if (this.ended[i] >= begin) visit(i);
    }
  }
}

const RISING = new Set(["began", "number", "round", "attempt", "bucket"]);

// The columns of a table, with `spans` if it has times; what has not ended lasts to `open(i)`.
function table(packed, open) {
  const found = {};
  for (const [name, text] of Object.entries(packed)) {
    found[name] = RISING.has(name) ? summed(unpacked(text)) : unpacked(text);
  }
  if (found.began) {
    found.ended = found.began.map((began, i) => found.took[i] < 0 ? open(found, i) : began + found.took[i]);
    found.spans = new Spans(found.began, found.ended);
  }
  return found;
}

// All of a run, from the JSON that encoding.py writes.
function decoded(data) {
  const end = Math.max(1, data.end);
  const toEnd = () => end;
  const flying = data.texts.indexOf("in flight");
  const messages = table(data.messages, (one, i) => data.shapes[one.shape[i]][9] === flying ? end : one.began[i]);
  const copies = table(data.copies, (one, i) => one.fate[i] === flying ? end : one.began[i]);
  messages.place = new Map();
  messages.number.forEach((number, i) => messages.place.set(number, i));
  messages.copied = new Set(copies.number);
  const counts = data.counts && { ...table({ ...data.counts, width: "" }, toEnd), width: data.counts.width };
  return {
    ...data, end, messages, copies, counts,
    bars: table(data.bars, toEnd), gaps: table(data.gaps, toEnd), path: table(data.path, toEnd),
    bands: data.bands.map(([kind, lanes, began, took, text]) =>
      ({ kind, lanes, began, ended: took < 0 ? end : began + took, open: took < 0, text })),
    marks: data.marks.map(([kind, party, time, text]) => ({ kind, party, time, text })),
    rounds: data.rounds.map(([name, began, ended, text]) => ({ name, began, ended, text })),
    phases: data.phases.map(([step, began, ended]) => ({ name: data.steps[step] || "", began, ended })),
  };
}

// Where times stand along the axis: in proportion, but for folds, each of which takes little room.
class Axis {
  constructor(end, folds) {
    const idle = folds.reduce((sum, [begin, stop]) => sum + stop - begin, 0);
    const room = (end - idle) * Math.min(.035, .35 / Math.max(1, folds.length));
    this.folds = folds;
    this.times = [0];
    this.units = [0];
    for (const [begin, stop] of folds) {
      const unit = this.units.at(-1) + begin - this.times.at(-1);
      this.times.push(begin, stop);
      this.units.push(unit, unit + room);
    }
    this.units.push(this.units.at(-1) + end - this.times.at(-1));
    this.times.push(end);
    this.length = this.units.at(-1);
  }

  at(time) { return this.between(this.times, this.units, time); }

  time(unit) { return this.between(this.units, this.times, unit); }

  between(from, to, value) {
    const i = Math.min(Math.max(1, below(from, value)), from.length - 1);
    const whole = from[i] - from[i - 1];
    return whole ? to[i - 1] + (value - from[i - 1]) / whole * (to[i] - to[i - 1]) : to[i];
  }
}
