// The controls of the page. Text of the model is only ever set as textContent.
"use strict";
(() => {
  const data = JSON.parse(document.getElementById("data").textContent);
  const byId = (id) => document.getElementById(id);
  const OPEN = -1;
  const MOST_SHOWN = 400;
  const ANY = "any";
  const views = {};

  const number = (value) => (value === null ? "none" : String(Number(value.toPrecision(10))));
  const amount = (index) => data.amounts[index][0];
  const size = (index) => (index === OPEN ? null : data.amounts[index][1]);

  function range(low, high) {
    if (low === OPEN) return high === OPEN ? "any" : `${amount(high)} or less`;
    if (high === OPEN) return `${amount(low)} or more`;
    return low === high ? amount(low) : `${amount(low)} to ${amount(high)}`;
  }

  function element(name, text, attributes = {}) {
    const made = document.createElement(name);
    if (text !== undefined) made.textContent = text;
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  // a row of a table: a narrow page shows the kind "main" on its first line, and the label of other cells before them
  function rowOf(columns, texts) {
    const line = element("tr");
    line.append(...columns.map(([label, kind, align], i) =>
      element(i ? "td" : "th", String(texts[i]), { "data-label": label, class: `${kind} ${align || ""}`.trim(), ...(i ? {} : { scope: "row" }) })));
    return line;
  }

  const headOf = (columns) => columns.map(([label, , align]) => element("th", label, { scope: "col", ...(align ? { class: align } : {}) }));

  function fill(select, texts, chosen = 0) {
    select.replaceChildren(...texts.map((text, i) => element("option", text, { value: i })));
    select.value = String(chosen);
  }

  // one chart per place; the latest request wins
  const requests = {};
  async function draw(id, spec, sets = {}) {
    const place = byId(id);
    if (!place || !spec) return null;
    const request = (requests[id] = (requests[id] || 0) + 1);
    delete views[id];
    const whole = { ...spec, datasets: { ...spec.datasets, ...sets } };
    const result = await vegaEmbed(place, whole, { actions: false, renderer: "svg", ast: true, tooltip: { theme: "custom" } });
    if (request !== requests[id]) return null;
    views[id] = result.view;
    return result.view;
  }

  function set(id, sets) {
    const view = views[id];
    if (!view) return;
    for (const [name, rows] of Object.entries(sets)) view.data(name, rows);
    view.runAsync();
  }

  // the same colors and hatches as in figures; a hatch is a pattern that the charts refer to
  const SVG = "http://www.w3.org/2000/svg";
  const HATCHES = {
    "/": "M-2 2L2 -2M0 8L8 0M6 10L10 6", "\\": "M-2 6L2 10M0 0L8 8M6 -2L10 2", "|": "M4 0V8",
    x: "M-2 2L2 -2M0 8L8 0M6 10L10 6M-2 6L2 10M0 0L8 8M6 -2L10 2", ".": "M1 2h2M5 6h2",
  };
  function drawing(name, attributes) {
    const made = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  }

  const patterns = drawing("svg", { class: "unseen", "aria-hidden": "true" });
  function color(action) {
    const [fill, hatch, line] = data.styles[action], id = `hatch-${action}`;
    if (!hatch) return fill;
    if (!document.getElementById(id)) {
      const pattern = drawing("pattern", { id, width: 8, height: 8, patternUnits: "userSpaceOnUse" });
      const lines = drawing("path", { d: HATCHES[hatch], stroke: line, "stroke-width": hatch === "." ? 2 : 1.2 });
      pattern.append(drawing("rect", { width: 8, height: 8, fill }), lines);
      if (!patterns.isConnected) document.body.append(patterns);
      patterns.append(pattern);
    }
    return `url(#${id})`;
  }

  // ---- value of the budget -------------------------------------------------------------------
  const chosen = { curve: 0, position: data.curves.length ? data.curves[0].marked : 0 };

  function position() {
    return data.curves.length ? data.curves[chosen.curve].positions[chosen.position] : null;
  }

  function firstText(plan) {
    if (plan === null) return "not computed for this budget";
    const found = data.plans[plan].first;
    if (!found.length) return "none: the episode is over";
    const several = found.length > 1;
    return found.map(([s, a]) => (several ? `${data.states[s]}: ${data.actions[a]}` : data.actions[a])).join("; ");
  }

  function showBudget() {
    const curve = data.curves[chosen.curve], here = position(), slider = byId("budget-slider");
    const what = curve.moved ? `All limits of ${curve.resource} changed by` : `Budget of ${curve.resource}`;
    slider.max = curve.positions.length - 1;
    slider.value = chosen.position;
    const feasible = here.value !== null;
    slider.setAttribute("aria-valuetext", `${here.text}, ${feasible ? `value ${number(here.value)}` : "infeasible"}`);
    byId("budget-label").textContent = what;
    byId("budget-amount-name").textContent = curve.moved ? "change of all limits" : "budget";
    byId("budget-amount").textContent = here.text;
    byId("budget-value").textContent = feasible ? number(here.value) : "infeasible";
    byId("budget-marginal-name").textContent = `gain of +${curve.extra}`;
    byId("budget-marginal").textContent =
      here.marginal !== null ? number(here.marginal) : feasible ? "beyond what was computed" : "infeasible";
    const [where, value] = here.rise || [];
    byId("budget-rise").textContent = !here.rise ? "none on this curve" : feasible ? `${where}, to ${number(value)}` : `feasible from ${where}, with value ${number(value)}`;
    byId("budget-first").textContent = feasible ? firstText(here.plan) : "no plan keeps this budget";
    byId("budget-reset").disabled = chosen.position === curve.marked;
    const marker = [{ x: here.x, v: here.value }];
    set("value-chart", { marker });
    set("gain-chart", { marker });
    showPlan();
  }

  async function drawCurve() {
    byId("curve-note").textContent = data.curves[chosen.curve].note;
    const here = position(), marker = [{ x: here.x, v: here.value }];
    const value = await draw("value-chart", data.specs.value[chosen.curve], { marker });
    await draw("gain-chart", data.specs.gain[chosen.curve], { marker });
    if (value) value.addEventListener("click", (event) => pick(value, event));
    showBudget();
  }

  function pick(view, event) {
    const box = view.container().querySelector("svg").getBoundingClientRect();
    const x = view.scale("x").invert(event.clientX - box.left - view.origin()[0]);
    const positions = data.curves[chosen.curve].positions;
    let best = 0;
    positions.forEach((each, i) => { if (each.x <= x) best = i; });
    chosen.position = best;
    showBudget();
  }

  function setUpCurves() {
    if (!data.curves.length) return;
    byId("budget-slider").addEventListener("input", (event) => {
      chosen.position = Number(event.target.value);
      showBudget();
    });
    byId("budget-reset").addEventListener("click", () => {
      chosen.position = data.curves[chosen.curve].marked;
      showBudget();
    });
    const select = byId("curve-resource");
    if (select)
      select.addEventListener("change", () => {
        chosen.curve = Number(select.value);
        chosen.position = data.curves[chosen.curve].marked;
        drawCurve();
      });
    drawCurve();
  }

  // ---- the plan ------------------------------------------------------------------------------
  let shownPlan = null;
  const last = { state: null, along: null, others: null };

  function currentPlan() {
    const here = position();
    if (here && here.value !== null && here.plan !== null) return here.plan;
    return null;
  }

  // the position with a plan that is closest to the chosen one
  function nearest(curve) {
    const places = curve.positions.map((place, i) => [Math.abs(i - chosen.position), place]).filter(([, place]) => place.plan !== null);
    return places.length ? places.reduce((best, each) => (each[0] < best[0] ? each : best))[1] : null;
  }

  function showPlan() {
    if (!byId("plan")) return;
    const found = currentPlan(), curve = data.curves[chosen.curve], here = position();
    let index = found === null ? 0 : found;
    let text = "The plan of the solution.";
    if (curve && here) {
      const at = (place) => (curve.moved ? `all limits of ${curve.resource} changed by ${place.text}` : `a budget of ${place.text} ${curve.resource}`);
      const own = chosen.position === curve.marked, what = at(here);
      if (found !== null) text = own ? `Shown: the plan for ${curve.moved ? "the limits as they are" : what}.` : `Shown: the plan for ${what}, as chosen above.`;
      else {
        const why = here.value === null ? `No plan keeps ${what}.` : own ? "" : `There is no plan on this page for ${what}.`;
        const other = data.own ? null : nearest(curve);
        if (other) index = other.plan;
        text = `${why} Shown: the plan ${other ? `for ${at(other)}` : "of the solution"}.`.trim();
      }
    }
    byId("plan-for").textContent = text;
    if (index === shownPlan) return;
    shownPlan = index;
    const plan = data.plans[index];
    byId("plan-note").textContent = plan.note ? `Note: ${plan.note}.` : "";
    if (byId("plan-state")) showStates(plan);
    showTable();
    showMap();
  }

  function showStates(plan) {
    const rows = plan.tables[0].rows;
    const counts = new Map();
    for (const row of rows) counts.set(row[1], (counts.get(row[1]) || 0) + 1);
    const states = [...counts.keys()];
    const first = plan.first.length ? plan.first[0][0] : states[0];
    const keep = states.includes(last.state) ? last.state : busiest(plan, states, first);
    const select = byId("plan-state");
    select.replaceChildren(...states.map((s) => element("option", data.states[s], { value: s })));
    select.value = String(keep);
    last.state = keep;
    const tables = plan.tables.map((table) => table.along);
    byId("plan-along-box").hidden = tables.length < 2;
    const at = Math.max(0, tables.indexOf(last.along));
    fill(byId("plan-along"), plan.tables.map((table) => table.resources[table.along] || ""), at);
    last.along = tables[at];
    drawPlan();
  }

  // the state with the greatest variety of actions says most; the start breaks ties
  function busiest(plan, states, first) {
    const seen = new Map(states.map((s) => [s, new Set()]));
    for (const row of plan.tables[0].rows) seen.get(row[1]).add(row[2]);
    return [first, ...states].reduce((best, s) => ((seen.get(s) || new Set()).size > (seen.get(best) || new Set()).size ? s : best));
  }

  let drawnAlong = null;
  async function drawPlan() {
    const table = planTable();
    if (!table || table.along < 0) return;
    const cells = planCells();
    const only = onlyAmount(cells), key = `${table.along} ${only}`;
    if (drawnAlong === key) return set("plan-chart", { cells });
    drawnAlong = key;
    const spec = data.specs.plan[table.along];
    await draw("plan-chart", only === null ? spec : withTick(spec, only), { cells });
  }

  // the amount of all cells, if there is only one: the axis then shows it, and no others
  function onlyAmount(cells) {
    const ends = new Set(cells.flatMap((cell) => [cell.low, cell.high]));
    return ends.size === 1 ? [...ends][0] : null;
  }

  function withTick(spec, at) {
    const { y } = spec.encoding;
    return { ...spec, encoding: { ...spec.encoding, y: { ...y, axis: { ...y.axis, values: [at], format: "~g" } } } };
  }

  function planTable() {
    const plan = data.plans[shownPlan];
    return plan.tables.find((table) => table.along === last.along) || plan.tables[0];
  }

  const othersOf = (row, table) =>
    table.resources.map((name, d) => (d === table.along ? "" : `${name} ${range(row[3 + 2 * d], row[4 + 2 * d])}`)).filter(Boolean).join(", ");

  function planCells() {
    const table = planTable(), d = table.along;
    let rows = table.rows.filter((row) => row[1] === last.state);
    const several = table.resources.length > 1;
    byId("plan-others-box").hidden = !several;
    if (several) {
      const texts = [ANY, ...new Set(rows.map((row) => othersOf(row, table)))];
      if (!texts.includes(last.others)) last.others = ANY;
      const select = byId("plan-others");
      select.replaceChildren(...texts.map((text) => element("option", text, { value: text })));
      select.value = last.others;
      if (last.others !== ANY) rows = rows.filter((row) => othersOf(row, table) === last.others);
    }
    const known = rows.flatMap((row) => [size(row[3 + 2 * d]), size(row[4 + 2 * d])]).filter((x) => x !== null);
    if (Number.isFinite(data.starting[d])) known.push(data.starting[d]);
    const unit = table.units[d], low = Math.min(...known), high = Math.max(...known);
    const least = Math.max(unit / 2, (high - low) / 160), bottom = low - least, top = high + least;
    const used = new Set();
    const cells = rows.map((row) => {
      const a = size(row[3 + 2 * d]), b = size(row[4 + 2 * d]);
      used.add(row[2]);
      return {
        x: row[0] - 0.5, x2: row[0] + 0.5, y: a === null ? bottom : a - least, y2: b === null ? top : b + least,
        color: color(row[2]), step: row[0], range: range(row[3 + 2 * d], row[4 + 2 * d]), action: data.actions[row[2]],
        value: row[row.length - 1] || "not known", number: row[2], low: a, high: b,
      };
    });
    legend("plan-legend", [...used].map((action) => [color(action), data.actions[action]]));
    return several && last.others === ANY ? divided(cells) : cells;
  }

  // cells that overlap, because the action also depends on other amounts, are divided among their actions
  function divided(cells) {
    const bySteps = new Map();
    for (const cell of cells) bySteps.set(cell.step, [...(bySteps.get(cell.step) || []), cell]);
    const parts = [];
    for (const group of bySteps.values()) {
      const ends = [...new Set(group.flatMap((cell) => [cell.y, cell.y2]))].sort((a, b) => a - b);
      for (let i = 0; i + 1 < ends.length; i++) {
        const there = new Map();
        for (const cell of group) if (cell.y <= ends[i] && cell.y2 >= ends[i + 1]) there.set(cell.number, cell);
        let place = 0;
        for (const cell of there.values()) {
          const x = cell.x + place / there.size;
          place += 1;
          parts.push({ ...cell, x, x2: x + 1 / there.size, y: ends[i], y2: ends[i + 1], value: there.size > 1 ? "depends on other amounts" : cell.value });
        }
      }
    }
    return parts;
  }

  function legend(id, entries, signs = []) {
    const items = entries.map(([paint, text]) => {
      const item = element("li"), sign = drawing("svg", { class: "sign", viewBox: "0 0 16 16" });
      sign.append(drawing("rect", { width: 16, height: 16, fill: paint }));
      item.append(sign, text);
      return item;
    });
    const letters = signs.map(([letter, text]) => {
      const item = element("li");
      item.append(element("span", letter, { class: "sign letter" }), text);
      return item;
    });
    byId(id).replaceChildren(...items, ...letters);
  }

  function showTable() {
    const plan = data.plans[shownPlan], table = plan.tables[plan.tables.length - 1];
    byId("plan-head").replaceChildren(...headOf(planColumns(table)));
    byId("plan-values").hidden = !hasValues(table);
    filterTable();
  }

  function planColumns(table) {
    const amounts = table.resources.map((name) => [`${name} remaining`, "part"]);
    const value = hasValues(table) ? [["value", "part", "number"]] : [];
    return [["step", "main", "number"], ["state", "main"], ...amounts, ["action", "main action"], ...value];
  }

  const hasValues = (table) => table.rows.some((row) => row[row.length - 1] !== "");

  function filterTable() {
    const plan = data.plans[shownPlan], table = plan.tables[plan.tables.length - 1];
    const words = byId("plan-search").value.toLowerCase().split(/\s+/).filter(Boolean);
    let step = null;
    const at = words.indexOf("step");
    if (at >= 0 && /^\d+$/.test(words[at + 1] || "")) step = Number(words.splice(at, 2)[1]);
    const found = [], valued = hasValues(table), columns = planColumns(table);
    for (const row of table.rows) {
      const cells = [String(row[0]), data.states[row[1]], ...table.resources.map((_, d) => range(row[3 + 2 * d], row[4 + 2 * d])), data.actions[row[2]], ...(valued ? [row[row.length - 1]] : [])];
      if (step !== null && row[0] !== step) continue;
      const text = cells.join(" \u0000 ").toLowerCase();
      if (words.every((word) => text.includes(word))) found.push(cells);
    }
    const shownRows = found.slice(0, MOST_SHOWN);
    byId("plan-rows").replaceChildren(...shownRows.map((cells) => rowOf(columns, cells)));
    const more = found.length > MOST_SHOWN ? `, the first ${MOST_SHOWN} shown` : "";
    byId("plan-count").textContent = `${found.length} of ${table.rows.length} rows${more}`;
  }

  // ---- the map -------------------------------------------------------------------------------
  function mapCells(step) {
    const plan = data.plans[shownPlan], table = plan.tables[plan.tables.length - 1];
    const d = table.resources.length - 1;
    const best = new Map();
    for (const row of table.rows) {
      if (step >= 0 ? row[0] !== step : best.has(row[1]) && best.get(row[1])[0] < row[0]) continue;
      const before = best.get(row[1]);
      // the row with the most that remains
      const high = d < 0 ? 0 : size(row[4 + 2 * d]) ?? Infinity;
      const other = !before || d < 0 ? -Infinity : size(before[4 + 2 * d]) ?? Infinity;
      if (!before || row[0] < before[0] || high > other) best.set(row[1], row);
    }
    return data.map.cells.map(([state, x, y]) => {
      const row = best.get(state);
      const cell = { state: data.states[state], x, y, x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5, fill: "var(--empty)", angle: null, letter: null, step: "–", range: "–", action: "no decision" };
      if (row) {
        cell.fill = "var(--tint)";
        cell.step = row[0];
        cell.action = data.actions[row[2]];
        cell.range = d < 0 ? "any" : range(row[3 + 2 * d], row[4 + 2 * d]);
        cell.color = "var(--accent)";
        sign(cell, state, row[2]);
      }
      return cell;
    });
  }

  // an arrow for a move, a letter for any other action
  function sign(cell, state, action) {
    const move = data.map.moves[`${state},${action}`];
    if (move) cell.angle = (Math.atan2(move[0], -move[1]) * 180) / Math.PI;
    else { cell.letter = data.map.letters[action] || "?"; cell.color = "var(--ink)"; }
  }

  function showMap() {
    if (!data.map || shownPlan === null) return;
    const step = Number(byId("map-step").value);
    const words = step < 0 ? "the first step at which the plan can be in each cell" : `step ${step}`;
    byId("map-step-text").textContent = step < 0 ? "first visit" : `step ${step}`;
    byId("map-step").setAttribute("aria-valuetext", words);
    byId("map-note").textContent = `Actions at ${words}, with the most that can remain there. Cells without a sign: the plan makes no decision there.`;
    set("map-chart", { cells: mapCells(step) });
  }

  async function setUpMap() {
    if (!data.map || !byId("map-chart")) return;
    const slider = byId("map-step");
    slider.max = data.horizon - 1;
    slider.value = -1;
    slider.addEventListener("input", showMap);
    const signs = Object.entries(data.map.letters).map(([action, letter]) => [letter, data.actions[action]]);
    const places = [["start", data.map.starts], ["must end in", data.map.goals]].filter(([, states]) => states.length && states.length < 6);
    legend("map-legend", [], [["↑", "move"], ...signs, ...places.map(([word, states]) => [word + ":", states.map((s) => data.states[s]).join(", ")])]);
    await draw("map-chart", data.specs.map, { cells: mapCells(-1) });
    showMap();
  }

  // ---- spending ------------------------------------------------------------------------------
  function setUpSpending() {
    if (!data.specs.spending.length) return;
    draw("spending-chart", data.specs.spending[0]);
    const select = byId("spending-resource");
    if (select) select.addEventListener("change", () => draw("spending-chart", data.specs.spending[Number(select.value)]));
  }

  // ---- sample episodes -----------------------------------------------------------------------
  const played = { episode: 0, step: 0, resource: 0 };

  // where the episode has been, where it is, and what is done there
  function walkCells() {
    const steps = data.episodes[played.episode].steps, at = played.step;
    const seen = new Set(steps.slice(0, at).map((step) => step.state));
    const now = at < steps.length ? steps[at].state : steps.length ? steps[steps.length - 1].next : null;
    return data.map.cells.map(([state, x, y]) => {
      const cell = { state: data.states[state], x, y, x0: x - 0.5, x1: x + 0.5, y0: y - 0.5, y1: y + 0.5, fill: seen.has(state) ? "var(--tint)" : "var(--empty)", color: "var(--mark)", angle: null, letter: null, step: "–", range: "–", action: "–" };
      if (state === now && at < steps.length) {
        const step = steps[at];
        cell.step = at;
        cell.action = data.actions[step.action];
        cell.range = step.remaining.join(", ");
        sign(cell, state, step.action);
      }
      return cell;
    });
  }

  function hereCell() {
    const steps = data.episodes[played.episode].steps, at = played.step;
    const now = at < steps.length ? steps[at].state : steps.length ? steps[steps.length - 1].next : null;
    return data.map.cells.filter(([state]) => state === now).map(([, x, y]) => ({ x0: x - 0.47, x1: x + 0.47, y0: y - 0.47, y1: y + 0.47 }));
  }

  function showEpisode(fresh) {
    const episode = data.episodes[played.episode], steps = episode.steps, at = played.step;
    if (fresh) {
      const names = data.limited.length > 1 ? data.limited.map((name) => ` of ${name}`) : [""];
      const parts = (what) => (data.limited.length ? names.map((name) => [`${what}${name}`, "part"]) : []);
      const columns = [["step", "main", "number"], ["state", "main"], ...parts("remaining"), ["action", "main action"], ...parts("cost"), ["reward", "part"], ["next state", "part"]];
      byId("episode-head").replaceChildren(...headOf(columns));
      byId("episode-rows").replaceChildren(
        ...steps.map((step, i) => rowOf(columns, [i, data.states[step.state], ...step.remaining, data.actions[step.action], ...step.cost, number(step.reward), data.states[step.next]])));
      set("episode-chart", { path: pathOf(episode) });
    }
    [...byId("episode-rows").children].forEach((line, i) => {
      if (i === at) { line.setAttribute("aria-current", "step"); reveal(line); } else line.removeAttribute("aria-current");
    });
    let text;
    if (at < steps.length) {
      const step = steps[at];
      const left = data.limited.map((name, d) => `${step.remaining[d]} ${name} remaining`).join(", ");
      const costs = data.limited.map((name, d) => `${step.cost[d]} ${name}`).join(" and ");
      text = `Step ${at}: in ${data.states[step.state]}${left ? `, ${left}` : ""}. The plan takes “${data.actions[step.action]}”, earns ${number(step.reward)}${costs ? `, pays ${costs}` : ""} and gets to ${data.states[step.next]}.`;
    } else {
      const bonus = episode.bonus ? `, of which ${number(episode.bonus)} for where it ended` : "";
      text = `The end, after ${steps.length} step${steps.length === 1 ? "" : "s"}: the episode earned ${number(episode.reward)} in all${bonus}.${episode.cut ? " Later steps are left out." : ""}`;
    }
    byId("episode-text").textContent = text;
    byId("episode-first").disabled = byId("episode-back").disabled = at === 0;
    byId("episode-last").disabled = byId("episode-next").disabled = at === steps.length;
    const spent = at === 0 ? episode.initial[played.resource] : steps[at - 1].x[played.resource];
    set("episode-chart", { marker: [{ h: at, s: spent }] });
    if (data.map) set("episode-map", { cells: walkCells(), here: hereCell() });
  }

  function pathOf(episode) {
    const d = played.resource;
    return [{ h: 0, s: episode.initial[d] }, ...episode.steps.map((step, i) => ({ h: i + 1, s: step.x[d] }))];
  }

  async function drawEpisode() {
    const path = pathOf(data.episodes[played.episode]);
    await draw("episode-chart", data.specs.episode[played.resource], { path, marker: [path[played.step]] });
  }

  // scroll the list, and never the page
  function reveal(line) {
    const box = line.closest(".scroll"), head = box.querySelector("thead").offsetHeight;
    if (line.offsetTop - head < box.scrollTop) box.scrollTop = line.offsetTop - head;
    else if (line.offsetTop + line.offsetHeight > box.scrollTop + box.clientHeight) box.scrollTop = line.offsetTop + line.offsetHeight - box.clientHeight;
  }

  function go(step) {
    const count = data.episodes[played.episode].steps.length;
    played.step = Math.max(0, Math.min(step, count));
    showEpisode(false);
  }

  async function setUpEpisodes() {
    if (!data.episodes.length) return;
    const select = byId("episode"), resource = byId("episode-resource");
    select.addEventListener("change", () => { played.episode = Number(select.value); played.step = 0; showEpisode(true); });
    const moves = { first: () => 0, back: () => played.step - 1, next: () => played.step + 1, last: () => Infinity };
    for (const [key, to] of Object.entries(moves)) byId(`episode-${key}`).addEventListener("click", () => go(to()));
    byId("player").addEventListener("keydown", (event) => {
      if (event.target.tagName === "SELECT" || event.altKey || event.ctrlKey || event.metaKey) return;
      const to = { ArrowLeft: moves.back, ArrowRight: moves.next, Home: moves.first, End: moves.last }[event.key];
      if (to) { event.preventDefault(); go(to()); }
    });
    if (resource)
      resource.addEventListener("change", async () => {
        played.resource = Number(resource.value);
        await drawEpisode();
        showEpisode(true);
      });
    if (data.specs.episode.length) await drawEpisode();
    if (data.map) await draw("episode-map", data.specs.map, { cells: walkCells(), here: hereCell() });
    showEpisode(true);
  }

  // ---- all of it -----------------------------------------------------------------------------
  async function setUp() {
    if (byId("plan")) {
      const state = byId("plan-state");
      if (state) {
        state.addEventListener("change", () => { last.state = Number(state.value); drawPlan(); });
        byId("plan-along").addEventListener("change", (event) => {
          last.along = data.plans[shownPlan].tables[Number(event.target.value)].along;
          last.others = null;
          drawPlan();
        });
        byId("plan-others").addEventListener("change", (event) => { last.others = event.target.value; drawPlan(); });
      }
      byId("plan-search").addEventListener("input", filterTable);
      showPlan();
    }
    setUpCurves();
    setUpSpending();
    draw("over-chart", data.specs.over);
    draw("earned-chart", data.specs.earned);
    await setUpMap();
    await setUpEpisodes();
    document.documentElement.dataset.ready = "yes";
  }
  setUp();
})();
