// What is visible of a run, where it stands, and how messages, waits and faults are drawn.

const SINGLE = 2500;  // more visible messages than these are drawn as densities
const CELL = 4;  // the width of a bucket of densities, in pixels
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Helvetica Neue', Arial, sans-serif";
const SMALL = `11px ${FONT}`, TINY = `10px ${FONT}`;

class Scene {
  constructor(data) {
    this.data = data;
    this.filter = { step: -1, party: -1, type: -1 };
    this.showPath = true;
    this.top = this.tall = this.left = 0;
    this.scroll = 0;
    this.fold(true);
    this.choose();
  }

  fold(folded) {
    const [begin, end] = this.axis ? [this.axis.time(this.from), this.axis.time(this.to)] : [0, this.data.end];
    const whole = !this.axis || (this.from <= 0 && this.to >= this.axis.length);
    this.axis = new Axis(this.data.end, folded ? this.data.folds : []);
    this.from = whole ? 0 : this.axis.at(begin);
    this.to = whole ? this.axis.length : Math.max(this.axis.at(end), this.from + 20);
  }

  // Which lanes there are: with a filter for a party, those that exchange messages with it.
  choose() {
    const { parties, messages } = this.data, { party } = this.filter;
    let lanes = parties.map((_, i) => i);
    if (party >= 0) {
      const peers = new Set([party]);
      for (let i = 0; i < messages.began.length; i++) {
        if (messages.from[i] === party) peers.add(messages.to[i]);
        if (messages.to[i] === party) peers.add(messages.from[i]);
      }
      lanes = lanes.filter(lane => peers.has(lane));
    }
    this.lanes = lanes;
    this.rows = new Int32Array(parties.length).fill(-1);
    lanes.forEach((lane, row) => { this.rows[lane] = row; });
  }

  // Whether the filter lets an item through.
  passes(kind, i) {
    const { step, party, type } = this.filter, { data } = this;
    if (kind === "message") {
      const one = data.messages, shape = data.shapes[one.shape[i]];
      return (step < 0 || shape[1] === step) && (type < 0 || shape[0] === type)
        && (party < 0 || one.from[i] === party || one.to[i] === party);
    }
    if (kind === "bar" || kind === "gap") {
      const one = kind === "bar" ? data.bars : data.gaps;
      const awaited = kind === "gap" ? type < 0 || data.awaited[one.types[i]].includes(data.types[type]) : type < 0;
      return awaited && (step < 0 || one.step[i] === step) && (party < 0 || one.party[i] === party);
    }
    return true;
  }

  layout(width, height, tall, measure) {
    this.width = width;
    this.height = height;
    this.tall = tall;
    const names = this.lanes.length <= 60 ? this.lanes : [this.lanes.at(0), this.lanes.at(-1)];
    this.left = Math.min(150, Math.ceil(Math.max(40, ...names.map(lane => measure(this.data.parties[lane])))) + 16);
    this.first = this.firstOf(tall);
    this.scroll = Math.max(0, Math.min(this.scroll, this.most));
  }

  // The first lane stays where it is while the others scroll below it, and is never low: it is the server's.
  firstOf(tall) { return Math.max(tall, 20); }

  // How far the lanes can be scrolled.
  get most() { return this.bottom + this.scroll - this.height; }

  get bottom() { return this.top + this.first + (this.lanes.length - 1) * this.tall - this.scroll; }

  // The height of what stands above the lanes: axis, rounds, steps.
  get head() { return 26 + (this.data.rounds.length ? 18 : 0) + (this.data.phases.length ? 18 : 0); }

  get scale() { return (this.width - this.left) / (this.to - this.from); }

  x(time) { return this.left + (this.axis.at(time) - this.from) * this.scale; }

  time(x) { return this.axis.time(Math.min(this.axis.length, Math.max(0, this.from + (x - this.left) / this.scale))); }

  y(lane) {
    const row = this.rows[lane];
    return row ? this.top + this.first + (row - .5) * this.tall - this.scroll : this.top + this.first / 2;
  }

  lane(y) {
    if (y < this.top + this.first) return this.lanes[0];
    return this.lanes[1 + Math.floor((y - this.top - this.first + this.scroll) / this.tall)];
  }

  // Whether a lane is among those chosen, and not scrolled away upwards.
  has(lane) { return this.rows[lane] === 0 || (this.rows[lane] > 0 && this.y(lane) > this.top + this.first); }

  high(lane) { return this.rows[lane] ? this.tall : this.first; }

  get visible() { return [this.axis.time(Math.max(0, this.from)), this.axis.time(Math.min(this.axis.length, this.to))]; }

  // Whether something between these two heights can be seen.
  inside(one, other) { return Math.max(one, other) >= this.top && Math.min(one, other) <= this.height; }

  each(kind, begin, end, visit) {
    const { step, party, type } = this.filter, all = step < 0 && party < 0 && type < 0;
    this.data[`${kind}s`].spans.each(begin, end, all ? visit : i => { if (this.passes(kind, i)) visit(i); });
  }

  // The straight lines of message `i`: one, or one for each copy on each hop, `[x0, y0, x1, y1, style]`.
  lines(i) {
    const one = this.data.messages;
    if (!one.copied.has(one.number[i])) {
      const ends = [this.x(one.began[i]), this.y(one.from[i]), this.x(one.ended[i]), this.y(one.to[i])];
      return !this.has(one.from[i]) || !this.has(one.to[i]) ? [] : [[...ends, one.took[i] < 0 ? "flying" : "plain"]];
    }
    if (!this.copiesOf) {
      this.copiesOf = new Map();
      this.data.copies.number.forEach((n, copy) => this.copiesOf.set(n, [...(this.copiesOf.get(n) || []), copy]));
    }
    const copies = this.data.copies, { texts } = this.data;
    return this.copiesOf.get(one.number[i]).map(copy => {
      const fate = texts[copies.fate[copy]], fact = texts[copies.fact[copy]], second = fact === "copy";
      const style = fate === "lost" ? "lost" : fate === "dropped" && !second ? "dropped"
        : fact === "again" ? "again" : second ? "second" : fate === "in flight" ? "flying" : "plain";
      const share = style === "lost" ? .55 : 1;
      const [y0, y1] = [this.y(copies.from[copy]), this.y(copies.to[copy])];
      if (!this.has(copies.from[copy]) || !this.has(copies.to[copy])) return null;
      return [this.x(copies.began[copy]), y0, this.x(copies.ended[copy]), y0 + (y1 - y0) * share, style];
    }).filter(Boolean);
  }

  draw(ctx, look) {
    this.ctx = ctx;
    this.look = look;
    const { width, height, left, top } = this, [begin, end] = this.visible;
    ctx.fillStyle = look.paper;
    ctx.fillRect(0, 0, width, height);
    ctx.lineJoin = "round";
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width - left, height - top);
    ctx.clip();
    this.drawBands();
    this.drawLanes();
    this.drawGaps(begin, end);
    this.drawMessages(begin, end);
    this.drawBars(begin, end);
    ctx.restore();
    this.drawFolds();
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width - left, height - top);
    ctx.clip();
    if (this.showPath) this.drawPath(begin, end);
    this.drawLabels(begin, end);
    this.drawMarks(begin, end);
    ctx.restore();
    this.drawHead(begin, end);
    this.drawNames();
  }

  drawBands() {
    const { ctx, look } = this;
    for (const band of this.data.bands) for (const lane of band.lanes) {
      const tall = this.high(lane), y = this.y(lane) - tall / 2, [x0, x1] = [this.x(band.began), this.x(band.ended)];
      if (!this.has(lane) || !this.inside(y, y + tall) || x1 < this.left || x0 > this.width) continue;
      const from = Math.max(x0, this.left - 8), wide = Math.max(2, Math.min(x1, this.width + 8) - from);
      ctx.fillStyle = look.band;
      const edge = tall > 8 ? 1 : 0;
      ctx.fillRect(from, y + edge, wide, tall - 2 * edge);
      ctx.save();
      ctx.beginPath();
      ctx.rect(from, y + edge, wide, tall - 2 * edge);
      ctx.clip();
      ctx.strokeStyle = look.hatch;
      ctx.lineWidth = 1;
      ctx.beginPath();
      const lean = { cut: tall, held: -tall, slow: 0 }[band.kind];
      if (lean !== undefined && tall >= 6) {
        const start = Math.floor(from / 8) * 8 - tall;
        for (let x = start; x < from + wide + tall; x += 8) { ctx.moveTo(x, y + tall); ctx.lineTo(x + lean, y); }
      }
      if (band.kind === "paused") for (let dy = 4; dy < tall - 2; dy += 5) { ctx.moveTo(from, y + dy); ctx.lineTo(from + wide, y + dy); }
      ctx.stroke();
      ctx.restore();
    }
  }

  drawLanes() {
    const { ctx, look } = this;
    ctx.strokeStyle = look.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    for (const lane of this.lanes) {
      const y = Math.round(this.y(lane)) + .5;
      if (this.has(lane) && this.inside(y, y)) { ctx.moveTo(this.left, y); ctx.lineTo(this.width, y); }
    }
    if (this.tall >= 12) ctx.stroke();
    ctx.strokeStyle = look.axis;
    ctx.beginPath();
    let last = this.left;
    for (const round of this.data.rounds.slice(1)) {
      const x = Math.round(this.x(round.began)) + .5;
      if (x > last + 24 && x < this.width) { ctx.moveTo(x, this.top); ctx.lineTo(x, this.bottom); last = x; }
    }
    ctx.globalAlpha = .5;
    ctx.stroke();
    ctx.globalAlpha = 1;
  }

  drawGaps(begin, end) {
    const { ctx, look, tall } = this, one = this.data.gaps, passed = this.data.texts.indexOf("deadline");
    const tick = Math.min(6, tall * .4), late = [], roomy = tall >= 12;
    ctx.strokeStyle = roomy ? look.wait : look.line;
    ctx.lineWidth = roomy ? 1.5 : 1;
    ctx.setLineDash(roomy ? [1.5, 3] : []);
    ctx.beginPath();
    this.each("gap", begin, end, i => {
      const y = this.y(one.party[i]), [x0, x1] = [this.x(one.began[i]), this.x(one.ended[i])];
      if (!this.has(one.party[i]) || !this.inside(y - tall, y + tall) || x1 - x0 < 1.5) return;
      ctx.moveTo(Math.max(x0, this.left), Math.round(y) + .5);
      ctx.lineTo(Math.min(x1, this.width), Math.round(y) + .5);
      if (one.how[i] === passed) late.push([x1, y]);
    });
    ctx.stroke();
    ctx.setLineDash([]);
    ctx.strokeStyle = look.warn;
    ctx.lineWidth = 2;
    ctx.beginPath();
    for (const [x, y] of late) { ctx.moveTo(x, y - tick); ctx.lineTo(x, y + tick); }
    ctx.stroke();
  }

  drawMessages(begin, end) {
    let count = 0;
    this.each("message", begin, end, () => { count++; });
    const counted = this.data.counts && this.filter.type < 0 && this.filter.step < 0;
    this.cells = count > SINGLE ? this.cellsOf(begin, end) : counted ? this.cellsOfCounts(begin, end) : null;
    this.drawn = count > SINGLE ? 0 : count;
    if (this.cells) this.drawCells();
    if (count <= SINGLE) this.drawArrows(begin, end);
  }

  // Messages sent and received, by lane and bucket of pixels.
  cellsOf(begin, end) {
    const one = this.data.messages, cells = this.emptyCells();
    this.each("message", begin, end, i => {
      cells.add(one.from[i], this.x(one.began[i]), 1, 0, this.data.shapes[one.shape[i]][6]);
      if (one.took[i] >= 0) cells.add(one.to[i], this.x(one.ended[i]), 0, 1, 0);
    });
    return cells;
  }

  cellsOfCounts(begin, end) {
    const { counts } = this.data, cells = this.emptyCells(), { party } = this.filter;
    const first = below(counts.bucket, Math.floor(begin / counts.width) - 1);
    for (let i = first; i < counts.bucket.length && counts.bucket[i] * counts.width <= end; i++) {
      if (party >= 0 && counts.party[i] !== party) continue;
      const middle = (counts.bucket[i] + .5) * counts.width;
      cells.add(counts.party[i], this.x(Math.min(middle, this.data.end)), counts.sent[i], counts.received[i], counts.bytes[i]);
    }
    return cells;
  }

  // Cells of the lanes that can be seen: what each sent and received, and the bytes of what it sent.
  emptyCells() {
    const wide = Math.ceil((this.width - this.left) / CELL) + 1;
    const lanes = this.lanes.filter(lane => this.has(lane) && this.inside(this.y(lane), this.y(lane)));
    const place = new Map(lanes.map((lane, i) => [lane, i * wide])), values = new Float64Array(lanes.length * wide * 3);
    const found = { most: 0, wide, lanes, values };
    found.column = x => Math.floor((x - this.left) / CELL);
    found.at = (lane, x) => {
      const start = place.get(lane), column = found.column(x);
      return start === undefined || column < 0 || column >= wide ? -1 : (start + column) * 3;
    };
    found.add = (lane, x, ...numbers) => {
      const at = found.at(lane, x);
      if (at < 0) return;
      for (let i = 0; i < 3; i++) values[at + i] += numbers[i];
      found.most = Math.max(found.most, values[at], values[at + 1]);
    };
    return found;
  }

  // What was sent rises above the lane's line, what was received hangs below it, by the logarithm of its number; a low
  // lane is filled the stronger, the more there was.
  drawCells() {
    const { ctx, look, cells } = this, { wide, values } = cells, whole = Math.log1p(cells.most);
    for (const [side, colour] of [[0, look.sent], [1, look.received]]) {
      const strengths = [];  // rectangles by tenths of strength: drawn together, which is much faster
      cells.lanes.forEach((lane, row) => {
        const tall = this.high(lane), y = this.y(lane), low = tall < 12;
        for (let column = 0; column < wide; column++) {
          const count = values[(row * wide + column) * 3 + side];
          if (!count) continue;
          const share = Math.log1p(count) / whole, high = low ? tall - 1 : Math.max(1, share * (tall / 2 - 1));
          const strength = low ? Math.round(3.5 + 6.5 * share) : 10;
          strengths[strength] ||= new Path2D();
          strengths[strength].rect(this.left + column * CELL, low ? y - high / 2 : side ? y + .5 : y - high, CELL - 1, high);
        }
      });
      ctx.fillStyle = colour;
      strengths.forEach((path, strength) => { ctx.globalAlpha = strength / 10; ctx.fill(path); });
    }
    ctx.globalAlpha = 1;
  }

  drawArrows(begin, end) {
    const { ctx, look } = this, styles = new Map(), heads = this.drawn <= 600;
    this.each("message", begin, end, i => {
      for (const line of this.lines(i)) {
        if (!this.inside(line[1], line[3])) continue;
        if (!styles.has(line[4])) styles.set(line[4], []);
        styles.get(line[4]).push(line);
      }
    });
    // where most are counted, those of the critical path would be drawn twice, until there is room to see them
    if (this.data.counts && end - begin > 60 * this.data.counts.width) styles.delete("plain");
    for (const [style, lines] of styles) {
      const { colour, dash, wide } = look.arrows[style];
      ctx.strokeStyle = ctx.fillStyle = colour;
      ctx.lineWidth = wide;
      ctx.setLineDash(dash);
      ctx.globalAlpha = style === "plain" || style === "second" ? (this.drawn > 400 ? .35 : .6) : 1;
      ctx.beginPath();
      for (const [x0, y0, x1, y1] of lines) { ctx.moveTo(x0, y0); ctx.lineTo(x1, y1); }
      ctx.stroke();
      ctx.setLineDash([]);
      if (heads || style !== "plain") for (const line of lines) this.tip(line, style);
      ctx.globalAlpha = 1;
    }
  }

  // The end of an arrow: a point, or a cross where the message is lost.
  tip([x0, y0, x1, y1], style) {
    if (style === "lost" || style === "dropped") this.cross(x1, y1, 3.5, 1.8);
    else if (style !== "flying" && Math.abs(y1 - y0) > 6) this.point(x0, y0, x1, y1, 5);
  }

  point(x0, y0, x1, y1, size) {
    const { ctx } = this, angle = Math.atan2(y1 - y0, x1 - x0);
    ctx.beginPath();
    ctx.moveTo(x1, y1);
    for (const turn of [-.42, .42]) ctx.lineTo(x1 - size * Math.cos(angle + turn), y1 - size * Math.sin(angle + turn));
    ctx.fill();
  }

  cross(x, y, size, wide) {
    const { ctx } = this;
    ctx.lineWidth = wide;
    ctx.beginPath();
    for (const side of [-1, 1]) { ctx.moveTo(x - size, y - side * size); ctx.lineTo(x + size, y + side * size); }
    ctx.stroke();
  }
}
