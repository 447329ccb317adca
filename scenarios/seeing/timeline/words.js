// What a timeline says of the things in it.

function seconds(time) {
  return `${(time / 1e6).toFixed(6).replace(/0+$/, "").replace(/\.$/, "")} s`;
}

// A duration of microseconds with three digits, as sim/units.py writes it.
function duration(time) {
  if (time >= 59.95e6) {
    const whole = Math.round(time / 1e6), minutes = Math.floor(whole / 60), pad = n => String(n).padStart(2, "0");
    return minutes < 60 ? `${minutes} min ${pad(whole % 60)} s` : `${Math.floor(minutes / 60)} h ${pad(minutes % 60)} min`;
  }
  if (time <= 0) return "0 s";
  const [factor, unit] = time >= 999.5e3 ? [1e6, "s"] : time >= 999.5 ? [1e3, "ms"] : [1, "us"];
  return `${Number((time / factor).toPrecision(3))} ${unit}`;
}

const number = value => Math.round(value).toLocaleString("en-US");
const plural = (count, one) => `${number(count)} ${one}${count === 1 ? "" : "s"}`;

// The lines of the tooltip of an item, the first one its title.
function described(data, item) {
  const { parties, steps, types, texts } = data;
  const i = item.i;
  const inStep = step => steps[step] ? `in step ${steps[step]}` : "outside of steps";
  const lasts = (table, i) => {
    const ends = table.took[i] < 0 ? ", not ended" : ` to ${seconds(table.ended[i])}, ${duration(table.took[i])}`;
    return `${seconds(table.began[i])}${ends}`;
  };
  switch (item.kind) {
    case "message": {
      const one = data.messages;
      const [type, step, payload, sealing, envelope, hops, bytes, lost, again, fate, note] = data.shapes[one.shape[i]];
      const times = one.took[i] < 0 ? `sent ${seconds(one.began[i])}, ${texts[fate]}`
        : `sent ${seconds(one.began[i])}, received ${seconds(one.ended[i])}, ${duration(one.took[i])}`;
      const copy = payload + sealing + envelope;
      return [
        types[type], `${parties[one.from[i]]} \u2192 ${parties[one.to[i]]}`, inStep(step) + ofRound(one, i), times,
        `${plural(copy, "byte")}: ${number(payload)} payload, ${number(sealing)} sealing, ${number(envelope)} envelope`,
        `over ${plural(hops, "hop")}, ${plural(bytes, "byte")} in all`,
        lost ? `${plural(lost, "time")} lost` : "", again ? `sent again ${plural(again, "time")}` : "", texts[note],
        `message ${one.number[i]}`,
      ].filter(Boolean);
    }
    case "bar": {
      const one = data.bars, slowed = one.full[i] < 0 && one.count[i] === 1;
      return [
        one.count[i] > 1 ? `${number(one.count[i])} jobs` : "computing", parties[one.party[i]], inStep(one.step[i]),
        lasts(one, i), slowed ? `${duration(one.full[i] + one.took[i])} at full speed` : "",
      ].filter(Boolean);
    }
    case "gap": {
      const one = data.gaps;
      return [
        `waiting for ${data.awaited[one.types[i]].join(", ")}`, `${parties[one.party[i]]}, from ${texts[one.what[i]]}`,
        inStep(one.step[i]), lasts(one, i), texts[one.end[i]],
      ];
    }
    case "band": {
      const one = data.bands[i];
      const ends = one.open ? "to the end of the record" : `to ${seconds(one.ended)}`;
      const lanes = one.lanes.map(lane => parties[lane]).join(" and ");
      return [NAMES[one.kind] || one.kind, lanes, one.text, `${seconds(one.began)} ${ends}, ${duration(one.ended - one.began)}`];
    }
    case "mark": {
      const one = data.marks[i];
      return [{ crash: "gone", return: "back", lost: "lost" }[one.kind], parties[one.party], one.text, seconds(one.time)];
    }
    case "path": {
      const one = data.path;
      return [
        `critical path: ${texts[one.kind[i]]}`, `${parties[one.party[i]]} \u2192 ${parties[one.peer[i]]}`,
        `${texts[one.type[i]]} ${inStep(one.step[i])}`, lasts(one, i),
      ];
    }
    case "fold": {
      const [begin, end] = data.folds[i];
      return [`${duration(end - begin)} folded`, "nothing but waiting", `${seconds(begin)} to ${seconds(end)}`];
    }
    case "cell": {
      return [
        `${number(item.sent + item.received)} messages`, parties[item.party],
        `${number(item.sent)} sent, ${number(item.received)} received`,
        item.bytes === undefined ? "" : `${plural(item.bytes, "byte")} sent`,
        `${seconds(item.began)} to ${seconds(item.ended)}`,
      ].filter(Boolean);
    }
    default: return [];
  }
}

const NAMES = { down: "down", paused: "paused", slow: "slow", cut: "link cut", held: "link held" };

function ofRound(one, i) {
  if (!one.round[i]) return "";
  return one.attempt[i] ? `, round ${one.round[i]}, attempt ${one.attempt[i]}` : `, round ${one.round[i]}`;
}
