// The rest of the drawing: jobs, labels, folds, the critical path, marks, axis and names; and what stands at a place.

class Picture extends Scene {
  drawBars(begin, end) {
    const { ctx, look, tall } = this, one = this.data.bars, high = Math.max(2, Math.min(14, tall * .5));
    this.taken = new Map();  // lanes, and where in them nothing can be written
    this.within = [];  // the names of steps in bars
    const all = new Path2D(), reached = new Map();
    ctx.font = TINY;
    ctx.textBaseline = "middle";
    this.each("bar", begin, end, i => {
      const y = this.y(one.party[i]), x0 = Math.max(this.x(one.began[i]), this.left - 9), x1 = this.x(one.ended[i]);
      if (!this.has(one.party[i]) || !this.inside(y - high, y + high)) return;
      const wide = Math.max(1.5, Math.min(x1, this.width + 9) - x0);
      if (x0 + wide < (reached.get(one.party[i]) || 0) + .5) return;  // nothing of it would be seen
      reached.set(one.party[i], x0 + wide);
      all.rect(x0, y - high / 2, wide, high);
      if (tall < 22) return;
      if (!this.taken.has(one.party[i])) this.taken.set(one.party[i], []);
      this.taken.get(one.party[i]).push([x0, x0 + wide]);
      const step = this.data.steps[one.step[i]];
      if (wide > 30 && ctx.measureText(step).width < wide - 8) this.within.push([step, Math.max(x0, this.left) + 4, y + .5]);
    });
    ctx.fillStyle = look.bar;
    ctx.fill(all);
  }

  // What is waited for, where there is room between what else is in the lane, and the names of faults.
  drawLabels(begin, end) {
    const { ctx, look, tall } = this, one = this.data.gaps;
    if (tall < 22) return;
    const stops = this.data.folds.map(([start]) => start), inner = this.axis.folds.length ? this.data.folds : [];
    const write = (lane, text, began, ended) => {
      const x0 = Math.max(this.x(began), this.left);
      const fold = inner[below(stops, this.time(x0 + 1))], x1 = Math.min(this.x(ended), this.width, fold ? this.x(fold[0]) : Infinity);
      const from = x0 + 5, to = from + ctx.measureText(text).width;
      const taken = this.taken.get(lane) || [];
      if (to > x1 - 3 || taken.some(([a, b]) => a < to + 4 && b > from - 2)) return;
      this.taken.set(lane, [...taken, [from, to]]);
      const y = this.y(lane) - tall * .26;
      ctx.strokeText(text, from, y);
      ctx.fillText(text, from, y);
    };
    ctx.fillStyle = look.muted;
    ctx.strokeStyle = look.paper;
    ctx.lineWidth = 3;
    ctx.font = TINY;
    ctx.textBaseline = "middle";
    ctx.strokeStyle = look.band;
    for (const band of this.data.bands) for (const lane of band.lanes) {
      if (this.has(lane)) write(lane, NAMES[band.kind], band.began, band.ended);
    }
    ctx.strokeStyle = look.paper;
    this.each("gap", begin, end, i => {
      const y = this.y(one.party[i]);
      if (!this.has(one.party[i]) || !this.inside(y, y)) return;
      if ((one.ended[i] - one.began[i]) * this.scale < 40) return;
      write(one.party[i], `waits for ${this.data.awaited[one.types[i]].join(", ")}`, one.began[i], one.ended[i]);
    });
    ctx.strokeStyle = look.bar;
    ctx.fillStyle = look.paper;
    for (const [text, x, y] of this.within) { ctx.strokeText(text, x, y); ctx.fillText(text, x, y); }
  }

  drawFolds() {
    const { ctx, look, top } = this, bottom = Math.min(this.height, this.bottom);
    for (const [begin, end] of this.axis.folds) {
      const [x0, x1] = [this.x(begin), this.x(end)];
      if (x1 < this.left || x0 > this.width) continue;
      const from = Math.max(x0, this.left);
      ctx.fillStyle = look.paper;
      ctx.fillRect(from, top, Math.max(0, Math.min(x1, this.width) - from), bottom - top);
      ctx.strokeStyle = look.hatch;
      ctx.lineWidth = 1;
      ctx.beginPath();
      for (const x of x1 - x0 > 9 ? [x0, x1] : [(x0 + x1) / 2]) {
        if (x < this.left || x > this.width) continue;
        for (let y = top, side = 1; y <= bottom + 4; y += 5, side = -side) ctx.lineTo(x + 2.5 * side, Math.min(y, bottom));
        ctx.moveTo(x, top);
      }
      ctx.stroke();
    }
  }

  drawPath(begin, end) {
    const { ctx, look } = this, one = this.data.path, lines = [], again = this.data.texts.indexOf("sent again");
    one.spans.each(begin, end, i => {
      const away = one.peer[i] >= 0, lane = one.party[i];
      const other = away ? one.peer[i] : lane;
      if (lane < 0 || !this.has(lane) || !this.has(other)) return;
      lines.push([this.x(one.began[i]), this.y(lane), this.x(one.ended[i]), this.y(other), away, one.kind[i] === again]);
    });
    const wide = lines.length > 120 ? 1.5 : 2.5;
    const dense = lines.length > this.width / 4;  // then what lasts is seen before what travels
    for (const [colour, thick] of [[look.paper, wide + 2], [look.accent, wide]].slice(wide < 2)) {
      ctx.strokeStyle = colour;
      ctx.lineWidth = thick;
      ctx.lineCap = "round";
      for (const dashed of [false, true]) {  // a copy that was lost, and waited for
        ctx.setLineDash(dashed ? [5, 5] : []);
        ctx.beginPath();
        for (const [x0, y0, x1, y1, , waited] of lines) if (waited === dashed) { ctx.moveTo(x0, y0); ctx.lineTo(x1, y1); }
        ctx.globalAlpha = dense ? .35 : 1;
        ctx.stroke();
      }
    }
    ctx.setLineDash([]);
    ctx.globalAlpha = 1;
    ctx.beginPath();
    if (dense) for (const [x0, y0, x1, y1, away] of lines) if (!away) { ctx.moveTo(x0, y0); ctx.lineTo(x1, y1); }
    ctx.stroke();
    ctx.lineCap = "butt";
    ctx.fillStyle = look.accent;
    if (lines.length < 300) for (const [x0, y0, x1, y1, away, waited] of lines) {
      if (away && !waited && Math.abs(y1 - y0) > 8) this.point(x0, y0, x1, y1, 9);
    }
  }

  drawMarks(begin, end) {
    const { ctx, look, tall } = this, size = Math.max(4, Math.min(6, tall * .3));
    for (const mark of this.data.marks) {
      const x = this.x(mark.time), y = this.y(mark.party);
      if (!this.has(mark.party) || x < this.left - 8 || x > this.width + 8 || !this.inside(y - 8, y + 8)) continue;
      ctx.strokeStyle = ctx.fillStyle = mark.kind === "return" ? look.good : look.bad;
      if (mark.kind === "crash") {
        ctx.strokeStyle = look.paper;
        this.cross(x, y, size, 5);
        ctx.strokeStyle = look.bad;
        this.cross(x, y, size, 2.5);
        continue;
      }
      const corners = mark.kind === "return" ? [[0, -1.2], [1.1, .8], [-1.1, .8]] : [[0, -1], [1, 0], [0, 1], [-1, 0]];
      ctx.beginPath();
      for (const [dx, dy] of corners) ctx.lineTo(x + dx * size, y + dy * size);
      ctx.closePath();
      if (mark.kind === "lost") {
        ctx.lineWidth = 2;
        ctx.fillStyle = look.paper;
        ctx.fill();
        ctx.stroke();
      } else {
        ctx.fill();
        ctx.strokeStyle = look.paper;
        ctx.lineWidth = 1;
        ctx.stroke();
      }
    }
  }

  // The axis with its units, the rounds and the steps.
  drawHead(begin, end) {
    const { ctx, look, left, top, width } = this;
    ctx.fillStyle = look.paper;
    ctx.fillRect(0, 0, width, top);
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, 0, width - left, this.height);
    ctx.clip();
    this.drawTicks(begin, end);
    let y = 26;
    for (const [phases, word] of [[this.data.rounds, "round "], [this.data.phases, ""]]) {
      if (phases.length) { this.drawPhases(phases, word, y); y += 18; }
    }
    ctx.restore();
    ctx.strokeStyle = look.axis;
    ctx.lineWidth = 1;
    ctx.beginPath();
    ctx.moveTo(left, top - .5);
    ctx.lineTo(width, top - .5);
    ctx.stroke();
    ctx.font = TINY;
    ctx.fillStyle = look.muted;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    [["time", 0], ["round", this.data.rounds.length], ["step", this.data.phases.length]]
      .filter((one, i) => !i || one[1]).forEach(([word], row) => ctx.fillText(word, left - 8, (row ? 9 : 13) + row * 18 + (row ? 8 : 0)));
    ctx.textAlign = "left";
  }

  drawTicks(begin, end) {
    const { ctx, look, left, top, width } = this, taken = [];
    ctx.font = SMALL;
    ctx.textBaseline = "middle";
    ctx.textAlign = "center";
    const write = (text, x, gap) => {
      const half = ctx.measureText(text).width / 2 + gap, at = Math.min(Math.max(x, left + half - gap), width - half + gap);
      if (Math.abs(at - x) > half || taken.some(([a, b]) => a < at + half && b > at - half)) return false;
      taken.push([at - half, at + half]);
      ctx.fillText(text, at, 13);
      return true;
    };
    ctx.fillStyle = look.ink;
    ctx.font = `600 ${SMALL}`;
    for (const [a, b] of this.axis.folds) {
      const x = (this.x(a) + this.x(b)) / 2;
      if (x > left && x < width) write(duration(b - a), x, 5);
    }
    ctx.font = SMALL;
    ctx.fillStyle = look.muted;
    const step = this.tickOf(), digits = Math.max(0, -Math.floor(Math.log10(step / 1e6) + 1e-9));
    ctx.strokeStyle = look.line;
    ctx.lineWidth = 1;
    ctx.beginPath();
    const knots = [0, ...this.axis.folds.flat(), this.data.end];
    for (let k = 0; k < knots.length; k += 2) {
      const from = Math.max(knots[k], begin), to = Math.min(knots[k + 1], end);
      for (let n = Math.ceil(from / step); n * step <= to; n++) {
        const x = Math.round(this.x(n * step)) + .5;
        if (write(`${(n * step / 1e6).toFixed(digits)} s`, x, 6)) { ctx.moveTo(x, 21); ctx.lineTo(x, 26); ctx.moveTo(x, top); ctx.lineTo(x, this.height); }
      }
    }
    ctx.globalAlpha = .6;
    ctx.globalCompositeOperation = "destination-over";
    ctx.stroke();
    ctx.globalCompositeOperation = "source-over";
    ctx.globalAlpha = 1;
    ctx.textAlign = "left";
  }

  // The time between ticks, in microseconds: a round number, so that labels have room.
  tickOf() {
    const least = 86 / this.scale, power = 10 ** Math.floor(Math.log10(least));
    return Math.max(1, [1, 2, 5, 10].map(one => one * power).find(one => one >= least));
  }

  drawPhases(phases, word, y) {
    const { ctx, look, left, width } = this, [begin, end] = this.visible;
    ctx.font = TINY;
    ctx.textBaseline = "middle";
    const one = below(phases.map(phase => phase.ended), begin);
    for (let i = Math.max(0, one - 1), last = -9; i < phases.length && phases[i].began <= end; i++) {
      const x0 = Math.max(this.x(phases[i].began), left), x1 = Math.min(this.x(phases[i].ended), width);
      if (x1 < left || x1 - last < 2) continue;
      last = x1;
      if (x1 - x0 < 3) { ctx.fillStyle = look.hatch; ctx.fillRect(x0, y + 2, Math.max(1, x1 - x0 - 1), 14); continue; }
      ctx.fillStyle = look.phase;
      ctx.fillRect(x0 + .5, y + 2, x1 - x0 - 1, 14);
      const text = [`${word}${phases[i].name}`, phases[i].name, phases[i].name.split(".").at(-1)]
        .find(some => ctx.measureText(some).width < x1 - x0 - 8);
      if (text && x1 - x0 > 12) { ctx.fillStyle = look.ink; ctx.fillText(text, x0 + 4, y + 9.5); }
    }
  }

  drawNames() {
    const { ctx, look, left, top, height, tall } = this;
    ctx.save();
    ctx.beginPath();
    ctx.rect(0, top, left, height - top);
    ctx.clip();
    ctx.fillStyle = look.paper;
    ctx.fillRect(0, top, left, height - top);
    ctx.font = tall < 13 ? TINY : SMALL;
    ctx.textBaseline = "middle";
    ctx.textAlign = "right";
    const often = Math.max(1, Math.ceil(13 / tall));
    this.lanes.forEach((lane, row) => {
      const y = this.y(lane);
      if ((row % often && row) || (row && y < top + this.first + 6) || y > height - 5) return;
      ctx.fillStyle = row ? look.muted : look.ink;
      ctx.fillText(this.data.parties[lane], left - 8, y + .5, left - 12);
    });
    ctx.textAlign = "left";
    ctx.restore();
  }

  // The item at a place, or null: marks before jobs, messages, waits and faults.
  find(x, y) {
    const { data, tall } = this;
    if (x < this.left || x > this.width || y > this.height) return null;
    const near = 5 / this.scale, time = this.from + (x - this.left) / this.scale;
    const [begin, end] = [this.axis.time(Math.max(0, time - near)), this.axis.time(Math.min(this.axis.length, time + near))];
    const fold = this.axis.folds.findIndex(([a, b]) => this.x(a) <= x && x <= this.x(b));
    if (fold >= 0) return { kind: "fold", i: fold };
    if (y < this.top) return null;
    const mark = data.marks.findIndex(one => this.has(one.party) && Math.hypot(this.x(one.time) - x, this.y(one.party) - y) < 8);
    if (mark >= 0) return { kind: "mark", i: mark };
    const high = Math.max(2, Math.min(14, tall * .5)) / 2 + 1;
    let found = null, best = 5;
    this.each("bar", begin, end, i => {
      const one = data.bars;
      if (!this.has(one.party[i]) || Math.abs(this.y(one.party[i]) - y) > high) return;
      if (this.x(one.began[i]) - 1 <= x && x <= Math.max(this.x(one.ended[i]), this.x(one.began[i]) + 1.5) + 1) found = { kind: "bar", i };
    });
    if (found) return found;
    if (this.drawn) this.each("message", begin, end, i => {
      for (const line of this.lines(i)) {
        const far = distance(x, y, line);
        if (far < best) { best = far; found = { kind: "message", i }; }
      }
    });
    if (this.showPath && !found) data.path.spans.each(begin, end, i => {
      const [from, to] = [data.path.party[i], data.path.peer[i]];
      if (to < 0 || !this.has(from) || !this.has(to)) return;
      const line = [this.x(data.path.began[i]), this.y(from), this.x(data.path.ended[i]), this.y(to)];
      if (distance(x, y, line) < 5) found = { kind: "path", i };
    });
    if (found) return found;
    const lane = this.lane(y);
    if (lane === undefined) return null;
    const { cells } = this, cell = cells ? cells.at(lane, x) : -1;
    if (cell >= 0 && (cells.values[cell] || cells.values[cell + 1])) {
      const x0 = this.left + cells.column(x) * CELL, [sent, received, bytes] = cells.values.subarray(cell, cell + 3);
      return { kind: "cell", i: x0, party: lane, sent, received, bytes, began: this.time(x0), ended: this.time(x0 + CELL) };
    }
    if (Math.abs(this.y(lane) - y) < Math.max(6, tall * .25)) {
      this.each("gap", begin, end, i => { if (data.gaps.party[i] === lane) found = { kind: "gap", i }; });
      if (found) return found;
    }
    const now = this.time(x);
    const band = data.bands.findIndex(one => one.lanes.includes(lane) && one.began <= now && now <= one.ended);
    return band >= 0 ? { kind: "band", i: band } : null;
  }

  // The lane of an item; of a message that of its end which is not in the first lane.
  laneOf({ kind, i }) {
    const { data } = this;
    if (kind === "message") return this.rows[data.messages.from[i]] ? data.messages.from[i] : data.messages.to[i];
    if (kind === "band") return data.bands[i].lanes[0];
    return kind === "mark" ? data.marks[i].party : data[`${kind}s`].party[i];
  }

  // A place of an item in the picture, `[x, y]`.
  place(item) {
    const { data } = this, { kind, i } = item, middle = one => this.x((one.began + one.ended) / 2);
    const row = one => ({ began: one.began[i], ended: one.ended[i] });
    switch (kind) {
      case "message": {
        const [x0, y0, x1, y1] = this.lines(i).at(-1) || [0, 0, 0, 0];
        return [x0 + (x1 - x0) * .4, y0 + (y1 - y0) * .4];
      }
      case "bar": return [middle(row(data.bars)), this.y(data.bars.party[i])];
      case "gap": return [middle(row(data.gaps)), this.y(data.gaps.party[i])];
      case "path": return [middle(row(data.path)), (this.y(data.path.party[i]) + this.y(data.path.peer[i])) / 2];
      case "mark": return [this.x(data.marks[i].time), this.y(data.marks[i].party)];
      case "band": return [middle(data.bands[i]), this.y(data.bands[i].lanes[0])];
      case "cell": return [middle(item), this.y(item.party)];
      default: return [middle({ began: data.folds[i][0], ended: data.folds[i][1] }), this.top];
    }
  }

  // Draws an item again, so that it stands out.
  stress(ctx, item, look) {
    this.ctx = ctx;
    ctx.strokeStyle = ctx.fillStyle = look.ink;
    ctx.lineWidth = 2;
    const { data, tall } = this;
    if (item.kind === "message") {
      for (const line of this.lines(item.i)) {
        ctx.beginPath();
        ctx.moveTo(line[0], line[1]);
        ctx.lineTo(line[2], line[3]);
        ctx.stroke();
        this.tip(line, line[4]);
      }
    } else if (item.kind === "bar" || item.kind === "gap") {
      const one = item.kind === "bar" ? data.bars : data.gaps, high = Math.max(4, Math.min(18, tall * .6));
      const x0 = Math.max(this.x(one.began[item.i]), this.left), x1 = Math.min(this.x(one.ended[item.i]), this.width);
      ctx.strokeRect(x0 - 1, this.y(one.party[item.i]) - high / 2, Math.max(3, x1 - x0 + 2), high);
    } else if (item.kind === "mark" || item.kind === "band") {
      const [x, y] = this.place(item);
      ctx.beginPath();
      ctx.arc(x, y, 10, 0, 7);
      if (item.kind === "mark") ctx.stroke();
    }
  }
}

function distance(x, y, [x0, y0, x1, y1]) {
  const [dx, dy] = [x1 - x0, y1 - y0], long = dx * dx + dy * dy;
  const share = long ? Math.max(0, Math.min(1, ((x - x0) * dx + (y - y0) * dy) / long)) : 0;
  return Math.hypot(x - x0 - share * dx, y - y0 - share * dy);
}
