import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, expect, test } from 'vitest';
import { compileText } from '../../domain/language/load.ts';
import type { Plan } from '../../domain/plan/plan.ts';
import { refuseLostUploads } from './lost-uploads.ts';

const dir = mkdtempSync(join(tmpdir(), 'voidbox-lost-uploads-'));
afterAll(() => rmSync(dir, { recursive: true, force: true }));
const uploads = join(dir, 'runs/earlier/uploads/0f');
mkdirSync(join(uploads, 'kept'), { recursive: true });

function planOf(keys: string): Plan {
  const text = `kind: workflow\nname: shop\nworkflow: { steps: [{ name: a, run: ls, ${keys} }] }\n`;
  const { plan, diagnostics } = compileText(text, 'x.yaml', { baseDir: dir });
  expect(diagnostics.filter(({ severity }) => severity === 'error')).toEqual([]);
  return plan!;
}

const mount = (path: string): string => `sandbox: { mounts: [{ host: "${path}", guest: /d, mode: ro }] }`;
const works = (path: string): string => `workspace: { git: "${path}" }`;

test.each([mount(join(uploads, 'gone')), works(join(uploads, '.outside/bundle-0'))])(
  'a retry whose uploads are deleted is refused with what can be done: %s',
  (keys) => {
    expect(() => refuseLostUploads(planOf(keys), dir, 'earlier')).toThrow(
      expect.objectContaining({
        code: 'cli/mount-missing',
        message: 'the uploads that run earlier used are deleted: a prune has removed the run that they belong to',
        remedy: expect.stringContaining('voidbox fork earlier FILE') as string,
      }),
    );
  },
);

test.each([mount(join(uploads, 'kept')), mount('/nowhere/of/the/owner'), mount(join(dir, 'runs/earlier/records/x'))])(
  'a plan without a lost upload is not refused here: %s',
  (keys) => {
    expect(() => refuseLostUploads(planOf(keys), dir, 'earlier')).not.toThrow();
  },
);
