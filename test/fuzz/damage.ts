/** Ways in which files get damaged: each changes one file, or reports that the file has nothing to change. */
import { mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';

export type Random = (below: number) => number;

export function seededRandom(seed: number): Random {
  let state = seed >>> 0;
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0;
    let mixed = Math.imul(state ^ (state >>> 15), state | 1);
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61);
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below);
  };
}

const STRANGE: readonly unknown[] = [
  null,
  true,
  0,
  -1,
  1.5,
  1e300,
  9e15,
  '',
  'x',
  '\u001b[2J',
  [],
  {},
  [null],
  { type: 'output' },
  'y'.repeat(3_000),
];

type Damage = (path: string, bytes: Buffer, random: Random, other: Buffer) => boolean;

export const DAMAGES: Readonly<Record<string, Damage>> = {
  flip: (path, bytes, random) => {
    if (bytes.length === 0) return false;
    const changed = Buffer.from(bytes);
    const at = random(changed.length);
    changed[at] = (changed[at] as number) ^ (1 << random(8));
    return write(path, changed);
  },
  cut: (path, bytes, random) => bytes.length > 0 && write(path, bytes.subarray(0, random(bytes.length))),
  cutFront: (path, bytes, random) => bytes.length > 0 && write(path, bytes.subarray(1 + random(bytes.length))),
  zeroes: (path, bytes, random) => {
    const changed = Buffer.from(bytes);
    const from = random(changed.length + 1);
    return write(path, changed.fill(0, from, Math.min(changed.length, from + 1 + random(400))));
  },
  drop: (path) => {
    rmSync(path);
    return true;
  },
  empty: (path) => write(path, ''),
  folder: (path) => {
    rmSync(path);
    mkdirSync(path);
    return true;
  },
  replaced: (path, _bytes, _random, other) => write(path, other),
  garbage: (path, _bytes, random) =>
    write(path, Buffer.from(Array.from({ length: 1 + random(200) }, () => random(256)))),
  strange: (path, _bytes, random) => write(path, JSON.stringify(STRANGE[random(STRANGE.length)])),
  lineDropped: lines((all, random) => all.splice(random(all.length), 1)),
  lineDoubled: lines((all, random) => all.splice(random(all.length), 0, all[random(all.length)] as string)),
  linesSwapped: lines((all, random) => {
    const [a, b] = [random(all.length), random(all.length)];
    [all[a], all[b]] = [all[b] as string, all[a] as string];
  }),
  lineReplaced: lines((all, random) => (all[random(all.length)] = JSON.stringify(STRANGE[random(STRANGE.length)]))),
  /** A value somewhere inside becomes another one: still JSON, of the wrong shape. */
  valueReplaced: lines((all, random) => {
    const at = random(all.length);
    const value: unknown = JSON.parse(all[at] as string);
    replaceWithin(value, random);
    all[at] = JSON.stringify(value);
  }),
  keyDropped: lines((all, random) => {
    const at = random(all.length);
    const value: unknown = JSON.parse(all[at] as string);
    dropWithin(value, random);
    all[at] = JSON.stringify(value);
  }),
};

function write(path: string, content: Buffer | string): true {
  writeFileSync(path, content);
  return true;
}

function lines(change: (all: string[], random: Random) => unknown): Damage {
  return (path, bytes, random) => {
    const text = bytes.toString('utf8');
    const all = text.split('\n').filter((line) => line !== '');
    if (all.length === 0) return false;
    try {
      change(all, random);
    } catch (error) {
      // Output is no JSON.
      if (error instanceof SyntaxError) return false;
      throw error;
    }
    return write(path, all.map((line) => `${line}\n`).join(''));
  };
}

function replaceWithin(value: unknown, random: Random): void {
  const places = placesOf(value);
  const place = places[random(places.length)];
  if (place !== undefined) place.holder[place.key] = STRANGE[random(STRANGE.length)];
}

function dropWithin(value: unknown, random: Random): void {
  const places = placesOf(value);
  const place = places[random(places.length)];
  if (place !== undefined) delete place.holder[place.key];
}

interface Place {
  readonly holder: Record<string, unknown>;
  readonly key: string;
}

function placesOf(value: unknown): Place[] {
  if (typeof value !== 'object' || value === null) return [];
  const holder = value as Record<string, unknown>;
  return Object.keys(holder).flatMap((key) => [{ holder, key }, ...placesOf(holder[key])]);
}

export function readBytes(path: string): Buffer {
  return readFileSync(path);
}
