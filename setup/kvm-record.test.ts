import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, expect, test } from 'vitest';
import {
  describeOldRecord,
  hashKvmSources,
  KVM_SOURCES,
  readKvmRecord,
  RECORD_PAGE,
  sumKvmRuns,
  writeKvmRecord,
} from './kvm-record.mjs';

const CHECKOUT = dirname(dirname(fileURLToPath(import.meta.url)));
const EMPTY = 'a\n<!-- the last run of npm run test:kvm -->\n<!-- end of the last run -->\nb\n';
const RUN = { place: 'the lab', passed: 170, retries: 1, tookMs: 1_230_000, date: '2026-11-30' };

let root: string;
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'voidbox-kvm-record-'));
  put('native/vmm/src/main.rs', 'fn main() {}');
  put('native/jail/src/lib.rs', 'mod a;');
  put(RECORD_PAGE, EMPTY);
});
afterEach(() => rmSync(root, { recursive: true, force: true }));

function put(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true });
  writeFileSync(join(root, path), text);
}

test('the hash counts names and contents of sources, and nothing else', () => {
  const first = hashKvmSources(root);
  expect(first).toMatch(/^[0-9a-f]{64}$/);
  for (const path of [
    'native/vmm/tests/a.rs',
    'native/vmm/target/a',
    'native/keeper/src/main.rs',
    'native/vmm/.x',
    'cli/a.ts',
  ])
    put(path, 'x');
  expect(hashKvmSources(root)).toBe(first);
  const hashes = [first];
  for (const [path, text] of [
    ['native/vmm/src/main.rs', 'fn main() { }'],
    ['native/keeper/src/vmm/mod.rs', ''],
    ['Cargo.lock', 'version = 4'],
    ['native/jail/src/lib.rs', 'mod '],
    // The same bytes in other files.
    ['native/jail/src/lib.rs2', 'a;'],
  ] as const) {
    put(path, text);
    hashes.push(hashKvmSources(root));
  }
  expect(new Set(hashes).size).toBe(6);
});

test('each named source is in this checkout', () => {
  const all = hashKvmSources(CHECKOUT);
  expect(all).not.toBe(hashKvmSources(root));
  for (const source of KVM_SOURCES) expect(() => readFileSync(join(CHECKOUT, source))).not.toThrow(/ENOENT/);
});

test('a record that was written vouches for its sources only', () => {
  expect(describeOldRecord(root)).toMatch(/has no record of a run of `npm run test:kvm`\. Run `npm run test:kvm`, and/);
  writeKvmRecord(root, { ...RUN, hash: hashKvmSources(root) });
  expect(describeOldRecord(root)).toBeNull();
  expect(readFileSync(join(root, RECORD_PAGE), 'utf8')).toContain(
    '| the lab | all 170 rows passed in 20.5 minutes, with 1 retry |\n\n<!-- end of the last run -->\nb\n',
  );
  put('native/vmm/src/main.rs', 'fn main() { loop {} }');
  expect(describeOldRecord(root)).toMatch(/native\/vmm: these sources have changed since .* on 2026-11-30 \(docs/);
  writeKvmRecord(root, { ...RUN, date: '2026-12-01', hash: hashKvmSources(root) });
  expect([describeOldRecord(root), readKvmRecord(root)?.date]).toEqual([null, '2026-12-01']);
});

test('a page without a place for the record is an error that names the lines', () => {
  put(RECORD_PAGE, 'a\n');
  expect(() => writeKvmRecord(root, { ...RUN, hash: 'f'.repeat(64) })).toThrow(/has no lines "<!-- the last run of/);
  rmSync(join(root, RECORD_PAGE));
  expect(readKvmRecord(root)).toBeNull();
});

test('the page of this checkout has a place for the record', () => {
  put(RECORD_PAGE, readFileSync(join(CHECKOUT, RECORD_PAGE), 'utf8'));
  writeKvmRecord(root, { ...RUN, hash: 'f'.repeat(64) });
  expect(readKvmRecord(root)).toEqual({ date: '2026-11-30', hash: 'f'.repeat(64) });
});

test('the runs of several files are one run', () => {
  const line = (passed: number, retries: number): string =>
    `${JSON.stringify({ place: 'the lab', passed, retries })}\n`;
  expect(sumKvmRuns(line(80, 0) + line(90, 2))).toEqual({ place: 'the lab', passed: 170, retries: 2 });
});
