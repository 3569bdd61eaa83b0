// A live table of records: rows are created once and replaced only if their record changed, sorted by a click on a heading,
// and shown in pages of a hundred.
import { arrangeChildren, fill, h } from "./dom.js";
import { byName, count } from "./words.js";

const PAGE = 100;

/**
 * @template R
 * @typedef {{title: string, key: string, cell: (name: string, record: R) => any, sort?: (name: string, record: R) => string | number,
 *   descending?: boolean, class?: string}} Column
 */

/** @template R */
export class Records {
  /**
   * @param {{label: string, columns: Column<R>[], sortBy: string, keep: (name: string, record: R) => boolean,
   *   nothing: (filtered: boolean) => Node}} options
   */
  constructor({ label, columns, sortBy, keep, nothing }) {
    this.columns = columns;
    this.keep = keep;
    this.nothing = nothing;
    this.limit = PAGE;
    this.sorting = this.columns.find((column) => column.key === sortBy);
    this.descending = this.sorting.descending ?? false;
    /** @type {Map<string, {record: R, row: HTMLElement}>} */
    this.rows = new Map();
    this.headings = columns.map((column) => this.heading(column));
    // Explicit roles: on narrow screens the rows are laid out as cards and would lose their implicit table roles.
    this.body = h("tbody", { role: "rowgroup" });
    this.table = h("table", { class: "records", role: "table", "aria-label": label }, h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, this.headings)), this.body);
    this.note = h("p", { class: "note", "aria-live": "polite" });
    this.more = h("button", { type: "button", onclick: () => this.showMore() }, "Show more");
    this.blank = h("div", {});
    this.element = h("div", { class: "records-box" }, this.table, this.blank, h("div", { class: "more" }, this.note, this.more));
    this.markSorting();
  }

  heading(/** @type {Column<R>} */ column) {
    const press = () => {
      this.descending = this.sorting === column ? !this.descending : (column.descending ?? false);
      this.sorting = column;
      this.markSorting();
      this.show(this.shown);
    };
    const content = column.sort ? h("button", { type: "button", onclick: press }, column.title) : column.title;
    return h("th", { scope: "col", role: "columnheader", class: column.class }, content);
  }

  markSorting() {
    this.columns.forEach((column, index) => {
      if (column === this.sorting) this.headings[index].setAttribute("aria-sort", this.descending ? "descending" : "ascending");
      else this.headings[index].removeAttribute("aria-sort");
    });
  }

  showMore() {
    this.limit += 5 * PAGE;
    this.show(this.shown);
  }

  /** @param {Map<string, R>} records */
  show(records) {
    this.shown = records;
    const kept = [...records].filter(([name, record]) => this.keep(name, record));
    const sort = this.sorting.sort ?? ((/** @type {string} */ name) => name);
    const sign = this.descending ? -1 : 1;
    const keyed = kept.map(([name, record]) => ({ name, record, key: sort(name, record) }));
    keyed.sort((left, right) => sign * compare(left.key, right.key) || byName(left.name, right.name));
    const visible = keyed.slice(0, this.limit);
    const rows = new Map();
    for (const { name, record } of visible) {
      const before = this.rows.get(name);
      rows.set(name, before?.record === record ? before : { record, row: this.row(name, record) });
    }
    arrangeChildren(this.body, [...rows.values()].map(({ row }) => row));
    this.rows = rows;
    this.table.hidden = kept.length === 0;
    fill(this.blank, kept.length === 0 && this.nothing(records.size > 0));
    this.more.hidden = kept.length <= this.limit;
    const all = kept.length === records.size ? count(records.size) : `${count(kept.length)} of ${count(records.size)}`;
    const words = kept.length > this.limit ? `the first ${count(this.limit)} of ${count(kept.length)} shown` : `${all} shown`;
    if (this.note.textContent !== words) fill(this.note, kept.length > 0 && words);
  }

  row(/** @type {string} */ name, /** @type {R} */ record) {
    return h(
      "tr",
      { role: "row", data: { name } },
      this.columns.map((column) => h("td", { role: "cell", class: column.class, data: { label: column.title } }, column.cell(name, record))),
    );
  }
}

function compare(left, right) {
  return typeof left === "number" && typeof right === "number" ? left - right : byName(String(left), String(right));
}
