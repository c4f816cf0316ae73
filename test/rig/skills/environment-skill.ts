/** A skill that reports all that it sees of its environment, and the value that it got, in every way that it can. */
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { rolldown } from 'rolldown';
import { findPackageRoot } from '../../../setup/package-root.ts';

/** No text contains it by chance. */
export const CANARY = 'canary-7f3a9c51-value';
export const TOKEN = 'CURIOUS_TOKEN';
/** The skill does not declare it, and programs do not need it. */
export const UNDECLARED = 'CURIOUS_SECRET';
export const UNDECLARED_VALUE = 'nobody-may-see-this-value';

/** The module contains `code` between its imports and its end. */
export function curiousCode(name: string): string {
  return `import { skill, terminal, z } from 'voidbox/skill-kit';
import { createHash } from 'node:crypto';
import { readFileSync } from 'node:fs';
const loaded = Object.keys(process.env).sort();
const seen = () => Object.keys(process.env).sort();
const token = () => process.env['${TOKEN}'] ?? 'none';
// A reader who compares sees that the right value was there, and learns no value.
const digest = () => createHash('sha256').update(token()).digest('hex');
const hidden = () => readFileSync('/proc/self/cmdline', 'utf8').includes(token()) ? 'on the command line' : 'nowhere';
const inner = skill({ name: 'inner', entry: 'whisper' })
  .step('whisper', { prompt: () => 'inner ' + digest(), response: z.object({}), action: () => ({ inner: token(), digest: digest() }), next: terminal })
  .build();
export default skill({
  name: '${name}', version: '1.0.0', description: 'Looks around.', entry: 'look', env: ['${TOKEN}'],
  stores: { kept: z.object({ token: z.string() }) },
  observers: { onStepComplete: () => { console.log('observed ' + token()); } },
})
  .step('look', {
    prompt: () => { console.error('prompted ' + token()); return 'It is ' + token() + ' of ' + digest(); },
    response: z.object({ fails: z.boolean() }),
    retry: { maxAttempts: 2, backoffMs: 1 },
    action: ({ response, attempt }) => {
      console.log('acted ' + token());
      if (response.fails && attempt === 1) throw new Error('no luck with ' + token());
      return { loaded, seen: seen(), digest: digest(), told: token(), hidden: hidden() };
    },
    save: ({ actionResult }) => ({ step: actionResult, kept: { token: token() } }),
    next: 'call',
  })
  .step('call', { call: 'inner', next: 'end' })
  .step('end', {
    prompt: ({ store }) => 'Kept ' + store.kept.token,
    response: z.object({}),
    save: ({ store }) => ({ step: { look: store.steps.look, inner: store.steps.call, kept: store.kept.token } }),
    next: terminal,
  })
  .subskill('inner', inner)
  .build();
`;
}

export interface CuriousScript extends Disposable {
  readonly dir: string;
  readonly entry: string;
  /** As its author would hand it out: bundled, and calling `main` itself. */
  readonly script: string;
}

export async function curiousScript(): Promise<CuriousScript> {
  const dir = mkdtempSync(join(tmpdir(), 'voidbox-curious-'));
  mkdirSync(join(dir, 'node_modules'));
  symlinkSync(findPackageRoot(), join(dir, 'node_modules/voidbox'));
  mkdirSync(join(dir, 'curious'));
  const entry = join(dir, 'curious/skill.ts');
  writeFileSync(entry, curiousCode('curious'));
  const main = join(dir, 'curious/main.ts');
  writeFileSync(
    main,
    `import { main } from 'voidbox/skill-kit/cli';\nimport skill from './skill.ts';\nawait main(skill);\n`,
  );
  const script = join(dir, 'curious/bin/run.mjs');
  const made = await rolldown({ input: main, platform: 'node', cwd: dir });
  await made.write({ file: script, format: 'esm', codeSplitting: false });
  await made.close();
  return { dir, entry, script, [Symbol.dispose]: () => rmSync(dir, { recursive: true, force: true }) };
}
