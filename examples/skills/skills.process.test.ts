/** Each example, driven by a model that the test plays. The skills import the built package, as an author's do. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { mockModel, noAnswer, runComposite, runSkill } from 'voidbox/skill-kit/test';
import contributorGuide from './contributor-guide.ts';
import parallelReview from './parallel-review.ts';
import releaseApproval from './release-approval.ts';
import repositoryDoctor from './repository-doctor.ts';

describe('repository-doctor', () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'voidbox-doctor-'));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  /** Writes the first file that the prompt names. */
  const diligent = (prompt: string): unknown => {
    const file = /^- (\S+): /m.exec(prompt)?.[1] ?? '';
    writeFileSync(join(folder, file), 'text\n');
    return { file };
  };

  it('repairs what is missing, one file a round', async () => {
    for (const file of ['README.md', 'LICENSE']) writeFileSync(join(folder, file), 'text\n');
    const { response, path } = await runSkill(repositoryDoctor, {
      params: { folder },
      model: mockModel({ treat: diligent }),
    });
    expect(response).toEqual({ healthy: true, repaired: ['CHANGELOG.md', '.gitignore'] });
    expect(path).toEqual(['examine', 'treat', 'examine', 'treat', 'examine', 'discharge']);
  });

  it('a repository that lacks everything is healthy in the end', async () => {
    const { response } = await runSkill(repositoryDoctor, {
      params: { folder },
      model: mockModel({ treat: diligent }),
    });
    expect(response).toEqual({ healthy: true, repaired: ['README.md', 'LICENSE', 'CHANGELOG.md', '.gitignore'] });
  });

  it('a healthy repository needs no model', async () => {
    for (const file of ['README.md', 'LICENSE', 'CHANGELOG.md', '.gitignore'])
      writeFileSync(join(folder, file), 'text\n');
    expect((await runSkill(repositoryDoctor, { params: { folder }, model: mockModel({}) })).response).toEqual({
      healthy: true,
      repaired: [],
    });
  });

  it('refers after five examinations that found the same', async () => {
    const idle = mockModel({ treat: () => ({ file: 'README.md' }) });
    const { response, path } = await runSkill(repositoryDoctor, { params: { folder }, model: idle });
    expect(response).toMatchObject({ healthy: false });
    expect(path.filter((step) => step === 'examine')).toHaveLength(5);
    expect(path.at(-1)).toBe('refer');
  });
});

describe('contributor-guide', () => {
  it('leads to a sub-skill, which gets its params from the answer', async () => {
    const prompts: string[] = [];
    const model = mockModel({
      ask: { want: 'set-up', language: 'Rust' },
      'set-up/tools': (prompt: string) => {
        prompts.push(prompt);
        return { tools: { cargo: '1.90' } };
      },
      'set-up/build': { passed: true, lastLines: 'ok' },
    });
    const run = await runComposite(contributorGuide, { model });
    expect(run.output).toEqual({ ready: true, tools: { cargo: '1.90' } });
    expect(run.redirectedTo).toEqual({ kind: 'subskill', name: 'set-up' });
    expect(prompts.join('\n')).toContain('tools for Rust');
  });

  it('starts a sub-skill on its own', async () => {
    const model = mockModel({
      'first-issue/choose': { issue: 7, why: 'small' },
      'first-issue/plan': { steps: ['read', 'write'] },
    });
    const run = await runComposite(contributorGuide, { model, directSubskill: 'first-issue' });
    expect(run.output).toEqual({ issue: 7, steps: ['read', 'write'] });
  });

  it('shows a topic', async () => {
    const run = await runComposite(contributorGuide, { model: mockModel({ ask: { want: 'style' } }) });
    expect(run.redirectedTo).toEqual({ kind: 'topic', name: 'style' });
    expect(run.output).toEqual({ topic: 'style', content: 'Names are full words. A comment says why.' });
  });
});

describe('parallel-review', () => {
  const model = (security: unknown): ReturnType<typeof mockModel> =>
    mockModel({
      read: { summary: 'Adds a cache' },
      correctness: { approved: true, remarks: [] },
      security,
      clarity: { approved: true, remarks: ['a | b'] },
    });

  it('approves when all three do', async () => {
    const { response, path } = await runSkill(parallelReview, {
      params: { change: 'main~1' },
      model: model({ approved: true, remarks: [] }),
    });
    expect(response).toMatchObject({ approved: true, table: expect.stringContaining('a \\| b') as string });
    expect(path.slice(2, 5).toSorted()).toEqual(['clarity', 'correctness', 'security']);
    expect(path.at(-1)).toBe('verdict');
  });

  it('one objection is enough', async () => {
    const { response } = await runSkill(parallelReview, {
      params: { change: 'main~1' },
      model: model({ approved: false, remarks: ['unbounded'] }),
    });
    expect(response).toMatchObject({ approved: false });
  });
});

describe('release-approval', () => {
  it.each([
    [true, 'released'],
    [false, 'declined'],
  ])('approved %s: %s', async (approved, outcome) => {
    const model = mockModel({ notes: { notes: 'Faster.', breaking: false }, approve: { approved, by: 'Ada' } });
    const { response } = await runSkill(releaseApproval, { params: { version: '2.0.0' }, model });
    expect(response).toEqual({ outcome, version: '2.0.0', by: 'Ada' });
  });

  it('expires without an answer', async () => {
    const model = mockModel({ notes: { notes: 'Faster.', breaking: false }, approve: noAnswer });
    const { response, path } = await runSkill(releaseApproval, { params: { version: '2.0.0' }, model });
    expect(response).toEqual({ outcome: 'expired', version: '2.0.0', by: null });
    expect(path).toEqual(['notes', 'expired']);
  });
});
