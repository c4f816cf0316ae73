/**
 * Reads a text as a POSIX shell does: quotes, substitutions, here-documents and words. It finds how a variable must be
 * written at each place, and which words of a command contain it. A wrong answer changes quotes, but never makes a
 * value code. The reason is that a shell expands a variable in one pass, and does not read the result as a script.
 */

import { type DocumentStart, readDocumentStart, type ScriptPlace } from './here-document.ts';

/** The context in which a shell reads the place of a value. */
export type ShellContext =
  | 'word'
  | 'double-quotes'
  | 'single-quotes'
  | 'dollar-quotes'
  | 'arithmetic'
  | 'backquotes'
  | 'escaped'
  | 'quoted-here-document'
  | 'here-document'
  | 'here-document-end';

export interface ShellWord {
  readonly text: string;
  /** Indexes of the places in the word. */
  readonly places: readonly number[];
}

export interface ShellReading {
  /** The context of each place. */
  readonly contexts: readonly ShellContext[];
  /** Simple commands, each with its words. */
  readonly commands: readonly (readonly ShellWord[])[];
  /** Here-documents with places: the words of their command, and these places. */
  readonly documents: readonly { readonly command: readonly ShellWord[]; readonly places: readonly number[] }[];
  /** Commands, each with the command that reads its output through a pipe. */
  readonly pipes: readonly { readonly from: readonly ShellWord[]; readonly to: readonly ShellWord[] }[];
}

export function readShell(text: string, places: readonly ScriptPlace[]): ShellReading {
  return new ShellReader(text, places).read();
}

interface Frame {
  readonly kind: 'commands' | 'double-quotes' | 'arithmetic' | 'braces' | 'backquotes' | 'here-document';
  /** Open `case` commands: the bracket after a pattern closes nothing. */
  cases: number;
  /** Open brackets of an arithmetic expression. */
  depth: number;
  /** The words of the current command. */
  words: Word[];
  word: Word | null;
  /** The last command, if a pipe follows it. */
  piped: Word[] | null;
}

interface Word {
  text: string;
  readonly places: number[];
}

interface PendingDocument extends Omit<DocumentStart, 'stop'> {
  readonly command: Word[];
}

/** A deeper level is read as one text, so that a hostile script cannot fill memory. */
const DEPTH_LIMIT = 50;

/** Words before a command that are keywords of the shell. */
const KEYWORDS: ReadonlySet<string> = new Set(['if', 'then', 'else', 'elif', 'while', 'until', 'do', '!', '{', '}']);

class ShellReader {
  readonly #text: string;
  readonly #places: readonly ScriptPlace[];
  readonly #contexts: ShellContext[] = [];
  readonly #commands: (readonly ShellWord[])[] = [];
  readonly #documents: { command: readonly ShellWord[]; places: number[] }[] = [];
  readonly #pipes: { readonly from: readonly ShellWord[]; readonly to: readonly ShellWord[] }[] = [];
  readonly #frames: Frame[] = [newFrame('commands')];
  #pending: PendingDocument[] = [];
  #at = 0;
  #nextPlace = 0;

  constructor(text: string, places: readonly ScriptPlace[]) {
    this.#text = text;
    this.#places = places;
  }

  read(): ShellReading {
    this.#readUntil(this.#text.length, 1);
    while (this.#frames.length > 0) this.#pop();
    return {
      contexts: this.#contexts,
      commands: this.#commands,
      documents: this.#documents,
      pipes: this.#pipes,
    };
  }

  get #frame(): Frame {
    return this.#frames.at(-1)!;
  }

  /** Stops at `end`; the caller closes the frames above `least`. */
  #readUntil(end: number, least: number): void {
    while (this.#at < end) {
      if (this.#takePlace()) continue;
      if (this.#takeEscape()) continue;
      if (this.#takeOpening()) continue;
      this.#takeCharacter(least);
    }
  }

  #contextOfFrame(): ShellContext {
    const { kind } = this.#frame;
    if (this.#frames.some((frame) => frame.kind === 'backquotes')) return 'backquotes';
    if (kind === 'commands') return 'word';
    if (kind === 'braces') return this.#isQuoted() ? 'double-quotes' : 'word';
    return kind;
  }

  /** Whether a quote around a `${…}` also applies within it. */
  #isQuoted(): boolean {
    for (const { kind } of this.#frames.toReversed()) {
      if (kind === 'commands' || kind === 'backquotes') return false;
      if (kind === 'double-quotes' || kind === 'here-document') return true;
    }
    return false;
  }

  #takePlace(context?: ShellContext): boolean {
    const place = this.#places[this.#nextPlace];
    if (place === undefined || place.start !== this.#at) return false;
    this.#contexts.push(context ?? this.#contextOfFrame());
    for (const frame of this.#frames) if (frame.word !== null) frame.word.places.push(this.#nextPlace);
    const { kind } = this.#frame;
    if (kind === 'commands' && this.#frame.word === null) this.#openWord(this.#frame).places.push(this.#nextPlace);
    this.#nextPlace += 1;
    this.#at = place.end;
    return true;
  }

  #takeEscape(): boolean {
    if (this.#text[this.#at] !== '\\') return false;
    this.#at += 1;
    if (this.#takePlace('escaped')) return true;
    // A backslash before a newline continues the line.
    if (this.#text[this.#at] !== '\n') this.#addToWord(this.#text[this.#at] ?? '');
    this.#at += 1;
    return true;
  }

  #takeOpening(): boolean {
    const { kind } = this.#frame;
    const isUnquoted = kind === 'commands' || (kind === 'braces' && !this.#isQuoted());
    if (this.#starts('$((')) return this.#open('arithmetic', 3);
    if (this.#starts('$(')) return this.#open('commands', 2);
    if (this.#starts('${')) return this.#open('braces', 2);
    if (isUnquoted && this.#starts("$'")) return this.#takeQuoted('dollar-quotes', 2);
    if (isUnquoted && this.#starts("'")) return this.#takeQuoted('single-quotes', 1);
    if (this.#starts('"') && kind !== 'double-quotes' && kind !== 'here-document')
      return this.#open('double-quotes', 1);
    if (!this.#starts('`')) return false;
    if (kind !== 'backquotes') return this.#open('backquotes', 1);
    this.#at += 1;
    this.#pop();
    return true;
  }

  #takeQuoted(context: 'single-quotes' | 'dollar-quotes', length: number): boolean {
    this.#at += length;
    this.#addToWord('');
    while (this.#at < this.#text.length && this.#text[this.#at] !== "'") {
      if (this.#takePlace(context)) continue;
      if (context === 'dollar-quotes' && this.#text[this.#at] === '\\') {
        this.#at += 1;
        if (this.#takePlace('escaped')) continue;
      }
      this.#addToWord(this.#text[this.#at] ?? '');
      this.#at += 1;
    }
    this.#at += 1;
    return true;
  }

  #takeCharacter(least: number): void {
    const frame = this.#frame;
    const character = this.#text[this.#at]!;
    const mayClose = this.#frames.length > least;
    switch (frame.kind) {
      case 'double-quotes':
        if (character === '"' && mayClose) this.#pop();
        else this.#addToWord(character);
        break;
      case 'braces':
        if (character === '}' && mayClose) this.#pop();
        break;
      case 'arithmetic':
        this.#takeArithmetic(frame, character, mayClose);
        break;
      case 'commands':
      case 'backquotes':
        this.#takeOfCommand(frame, character, mayClose);
        return;
      case 'here-document':
        break;
    }
    this.#at += 1;
  }

  #takeArithmetic(frame: Frame, character: string, mayClose: boolean): void {
    if (character === '(') frame.depth += 1;
    if (character !== ')') return;
    if (frame.depth > 0) frame.depth -= 1;
    else if (mayClose) {
      if (this.#text[this.#at + 1] === ')') this.#at += 1;
      this.#pop();
    }
  }

  #takeOfCommand(frame: Frame, character: string, mayClose: boolean): void {
    const { word } = frame;
    if (character === '#' && word === null) return this.#takeComment();
    if (this.#starts('<<<')) {
      endWord(frame);
      this.#at += '<<<'.length;
      return;
    }
    if (this.#starts('<<')) return this.#takeDocumentStart(frame);
    if (this.#startsArithmetic(frame) && this.#open('arithmetic', 2)) return;
    this.#at += 1;
    if (character === '\n') {
      this.#endCommand(frame);
      this.#readDocuments();
    } else if (character === '|') this.#takePipe(frame);
    else if (/[;&]/.test(character)) this.#endCommand(frame);
    else if (/\s/.test(character)) endWord(frame);
    else if (character === '(') {
      this.#endCommand(frame);
      if (this.#frames.length < DEPTH_LIMIT) this.#frames.push(newFrame('commands'));
    } else if (character === ')') {
      this.#endCommand(frame);
      if (frame.cases === 0 && mayClose && frame.kind === 'commands') this.#pop();
    } else if (/[<>]/.test(character)) endWord(frame);
    else this.#addToWord(character);
  }

  /**
   * Whether `((…))` of bash begins here. A POSIX shell reads a command in two brackets; authors write a space between
   * those.
   */
  #startsArithmetic({ word, words }: Frame): boolean {
    return word === null && words.length === 0 && this.#starts('((');
  }

  #takePipe(frame: Frame): void {
    endWord(frame);
    const { words } = frame;
    this.#endCommand(frame);
    if (this.#starts('|')) this.#at += 1;
    else if (words.length > 0) frame.piped = words;
  }

  /** A place in a comment belongs to no command. */
  #takeComment(): void {
    while (this.#at < this.#text.length && this.#text[this.#at] !== '\n') {
      if (this.#places[this.#nextPlace]?.start === this.#at) {
        this.#contexts.push('double-quotes');
        this.#at = this.#places[this.#nextPlace]!.end;
        this.#nextPlace += 1;
      } else this.#at += 1;
    }
  }

  #takeDocumentStart(frame: Frame): void {
    endWord(frame);
    const start = readDocumentStart(this.#text, this.#at, this.#places, this.#nextPlace);
    if (start === null) {
      this.#at += '<<'.length;
      return;
    }
    const { stop, ...document } = start;
    for (let place = this.#places[this.#nextPlace]; place !== undefined && place.start < stop;) {
      this.#at = place.start;
      this.#takePlace('here-document-end');
      place = this.#places[this.#nextPlace];
    }
    this.#at = Math.max(this.#at, stop);
    this.#pending.push({ ...document, command: frame.words });
  }

  #readDocuments(): void {
    const pending = this.#pending;
    this.#pending = [];
    for (const document of pending) this.#readDocument(document);
  }

  #readDocument({ end, isQuoted, hasTabs, command }: PendingDocument): void {
    const first = this.#nextPlace;
    const [bodyEnd, next] = this.#findDocumentEnd(end, hasTabs);
    if (isQuoted) {
      while (this.#places[this.#nextPlace] !== undefined && this.#places[this.#nextPlace]!.start < bodyEnd) {
        this.#contexts.push('quoted-here-document');
        this.#nextPlace += 1;
      }
    } else {
      const depth = this.#frames.length;
      this.#frames.push(newFrame('here-document'));
      this.#readUntil(bodyEnd, depth + 1);
      while (this.#frames.length > depth) this.#pop();
    }
    const places = Array.from({ length: this.#nextPlace - first }, (_, index) => first + index);
    if (places.length > 0) this.#documents.push({ command, places });
    this.#at = Math.max(this.#at, next);
  }

  /** Returns the start of the document's last line, and the offset after that line. */
  #findDocumentEnd(end: string, hasTabs: boolean): readonly [number, number] {
    let start = this.#at;
    while (start < this.#text.length) {
      const newline = this.#text.indexOf('\n', start);
      const stop = newline === -1 ? this.#text.length : newline;
      const line = this.#text.slice(start, stop);
      if ((hasTabs ? line.replace(/^\t+/, '') : line) === end) return [start, Math.min(stop + 1, this.#text.length)];
      start = stop + 1;
    }
    return [this.#text.length, this.#text.length];
  }

  #starts(text: string): boolean {
    return this.#text.startsWith(text, this.#at);
  }

  #open(kind: Frame['kind'], length: number): boolean {
    if (this.#frames.length >= DEPTH_LIMIT) return false;
    this.#at += length;
    this.#addToWord('');
    this.#frames.push(newFrame(kind));
    return true;
  }

  #pop(): void {
    this.#endCommand(this.#frame);
    this.#frames.pop();
  }

  #addToWord(text: string): void {
    // Quotes belong to a word of the command around them.
    const owner = this.#frames.findLast(({ kind }) => kind === 'commands' || kind === 'backquotes');
    if (owner === undefined || this.#frame.kind === 'here-document') return;
    this.#openWord(owner).text += text;
  }

  #openWord(frame: Frame): Word {
    frame.word ??= { text: '', places: [] };
    return frame.word;
  }

  #endCommand(frame: Frame): void {
    endWord(frame);
    if (frame.words.length > 0) {
      this.#commands.push(frame.words);
      if (frame.piped !== null) this.#pipes.push({ from: frame.piped, to: frame.words });
      frame.piped = null;
    }
    frame.words = [];
  }
}

function newFrame(kind: Frame['kind']): Frame {
  return { kind, cases: 0, depth: 0, words: [], word: null, piped: null };
}

function endWord(frame: Frame): void {
  const { word } = frame;
  frame.word = null;
  if (word === null) return;
  if (frame.words.length === 0 && word.places.length === 0) {
    if (KEYWORDS.has(word.text)) return;
    if (word.text === 'case') frame.cases += 1;
    if (word.text === 'esac' && frame.cases > 0) frame.cases -= 1;
  }
  frame.words.push(word);
}
