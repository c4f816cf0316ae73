/** The text that a terminal shows after the output of Voidbox's command line: colours, and the block that `run` redraws. */

export interface Run {
  readonly text: string;
  /** Codes of SGR that apply, such as `1` and `36`, in ascending order. */
  readonly codes: readonly number[];
}

/** One line of the screen, as runs of one style each. */
export type Line = readonly Run[];

interface Cell {
  readonly character: string;
  readonly codes: readonly number[];
}

// eslint-disable-next-line no-control-regex -- escape sequences are the subject
const SEQUENCE = /\u001b\[([\d;?]*)([A-Za-z])/y;

/** Knows what the command line writes: SGR, cursor up, carriage return, and erasure to the end. @throws Error for another sequence */
export class Screen {
  readonly #rows: Cell[][] = [[]];
  #row = 0;
  #column = 0;
  #codes: readonly number[] = [];

  write(text: string): void {
    for (let at = 0; at < text.length;) {
      if (text[at] === '\u001b') at = this.#obey(text, at);
      else {
        const character = String.fromCodePoint(text.codePointAt(at)!);
        this.#put(character);
        at += character.length;
      }
    }
  }

  /** Returns the last lines of the screen, at most so many. */
  listLines(count: number): readonly Line[] {
    const rows = this.#rows.at(-1)!.length === 0 ? this.#rows.slice(0, -1) : this.#rows;
    return rows.slice(-count).map(toRuns);
  }

  #put(character: string): void {
    if (character === '\r') this.#column = 0;
    else if (character === '\n') {
      this.#row += 1;
      this.#column = 0;
      if (this.#row === this.#rows.length) this.#rows.push([]);
    } else {
      const row = this.#rows[this.#row]!;
      while (row.length < this.#column) row.push({ character: ' ', codes: [] });
      row[this.#column] = { character, codes: this.#codes };
      this.#column += 1;
    }
  }

  #obey(text: string, at: number): number {
    SEQUENCE.lastIndex = at;
    const [whole, numbers = '', kind] = SEQUENCE.exec(text) ?? [];
    if (whole === undefined) throw new Error(`unknown sequence at ${JSON.stringify(text.slice(at, at + 20))}`);
    if (kind === 'm') this.#style(numbers);
    else if (kind === 'A') this.#row = Math.max(0, this.#row - Number(numbers || 1));
    else if (kind === 'J' || kind === 'K') {
      this.#rows[this.#row]!.length = Math.min(this.#rows[this.#row]!.length, this.#column);
      if (kind === 'J') this.#rows.length = this.#row + 1;
    } else if (!numbers.startsWith('?')) throw new Error(`unknown sequence ${JSON.stringify(whole)}`);
    return at + whole.length;
  }

  /** `22` ends bold and dim, `39` ends a colour. */
  #style(numbers: string): void {
    for (const code of numbers.split(';').map(Number)) {
      const isColour = (each: number): boolean => (each >= 30 && each <= 37) || (each >= 90 && each <= 97);
      if (code === 0) this.#codes = [];
      else if (code === 22) this.#codes = this.#codes.filter((each) => each !== 1 && each !== 2);
      else if (code === 39) this.#codes = this.#codes.filter((each) => !isColour(each));
      else {
        const kept = this.#codes.filter((each) => each !== code && !(isColour(code) && isColour(each)));
        this.#codes = [...kept, code].toSorted((one, other) => one - other);
      }
    }
  }
}

function toRuns(row: readonly Cell[]): Line {
  const runs: { text: string; codes: readonly number[] }[] = [];
  for (const { character, codes } of row) {
    const last = runs.at(-1);
    if (last !== undefined && last.codes.join() === codes.join()) last.text += character;
    else runs.push({ text: character, codes });
  }
  return runs;
}
