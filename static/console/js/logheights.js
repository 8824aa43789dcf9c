// Where rows are when some are taller than others: a row has the common height until it is measured.
// The differences are kept in a Fenwick tree, so that a place is found in O(log n) of a million rows.

export class RowHeights {
  #extras = new Map(); // row → pixels above the common height
  #tree = new Float64Array(0);

  constructor(common) {
    this.common = common;
  }

  clear() {
    this.#extras.clear();
    this.#tree = new Float64Array(0);
  }

  /** Takes the measured height of a row; returns whether it was another before. */
  set(row, height) {
    const difference = height - this.common - (this.#extras.get(row) ?? 0);
    if (Math.abs(difference) < 0.5) return false;
    this.#extras.set(row, height - this.common);
    if (row >= this.#tree.length) this.#grow(row);
    else this.#add(row, difference);
    return true;
  }

  /** The distance of a row from the first row's top; of `length` rows, their whole height. */
  topOf(row) {
    let extra = 0;
    for (let at = Math.min(row, this.#tree.length); at > 0; at &= at - 1) extra += this.#tree[at - 1];
    return row * this.common + extra;
  }

  /** The row at that distance. */
  rowAt(distance) {
    let [row, rest] = [0, distance];
    for (let step = this.#tree.length; step >= 1; step /= 2) { // a power of two, or none
      const height = step * this.common + (this.#tree[row + step - 1] ?? 0);
      if (row + step <= this.#tree.length && height <= rest) {
        row += step;
        rest -= height;
      }
    }
    return row + Math.max(0, row >= this.#tree.length ? Math.floor(rest / this.common) : 0);
  }

  #add(row, difference) {
    for (let at = row + 1; at <= this.#tree.length; at += at & -at) this.#tree[at - 1] += difference;
  }

  #grow(row) {
    this.#tree = new Float64Array(2 ** Math.ceil(Math.log2(Math.max(1024, row + 1))));
    for (const [each, extra] of this.#extras) this.#add(each, extra);
  }
}
