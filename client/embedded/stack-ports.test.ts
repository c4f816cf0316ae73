import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, test } from 'vitest';
import type { StackInfo } from './stack-info.ts';
import { describeMove, keepStackPorts, readStackPorts } from './stack-ports.ts';

let dir: string;

beforeEach(() => void (dir = mkdtempSync(join(tmpdir(), 'voidbox-ports-'))));
afterEach(() => rmSync(dir, { recursive: true }));

test('ports come back as they were kept', () => {
  expect(readStackPorts(dir)).toBeNull();
  keepStackPorts(dir, { grpc: 40_001, ui: 40_002 });
  expect(readStackPorts(dir)).toEqual({ grpc: 40_001, ui: 40_002 });
});

test.each([
  '',
  'null',
  '[]',
  '{"grpc":40001}',
  '{"grpc":"40001","ui":40002}',
  '{"grpc":22,"ui":40002}',
  '{"grpc":40001,"ui":70000}',
  '{"grpc":40001,"ui":40001}',
])('a file that says %s says nothing', (text) => {
  writeFileSync(join(dir, 'stack-ports.json'), text);
  expect(readStackPorts(dir)).toBeNull();
});

test('the description of a stack with other ports names the port that was taken', () => {
  const info = { address: '127.0.0.1:40001', uiUrl: 'http://127.0.0.1:40009' } as StackInfo;
  expect(describeMove(null, info)).toBeNull();
  expect(describeMove({ grpc: 40_001, ui: 40_009 }, info)).toBeNull();
  expect(describeMove({ grpc: 40_001, ui: 40_002 }, info)).toBe(
    'the embedded stack has other ports than before: UI port 40002 is taken by another program, now http://127.0.0.1:40009',
  );
});
