import { expect, test } from 'vitest';
import { compileText, type CompiledText } from '../../load.ts';

const SPEC = `
kind: agent
name: fix
params: { sha: {}, branch: main }
agent:
  prompt: Fix it.
  workspace: { git: "https://example.com/a.git", ref: REF }
`;

function compileRef(ref: string, params: Readonly<Record<string, string>>): CompiledText {
  return compileText(SPEC.replace('REF', JSON.stringify(ref)), 'x.yaml', { baseDir: '/', params });
}

const refOf = ({ plan }: CompiledText): unknown => plan?.stages[0]?.workspace?.from;

test.each(['main', 'refs/pull/5/head', '0123456789abcdef0123456789abcdef01234567'])(
  'a run sets the ref of a workspace: %s',
  (sha) => {
    const compiled = compileRef('${{ params.sha }}', { sha });
    expect(compiled.diagnostics).toEqual([]);
    expect(refOf(compiled)).toMatchObject({ ref: sha });
  },
);

test.each(['--upload-pack=touch', '-x', 'main..other', 'main~3', 'main^{/fix}', 'a:b', '', '${{ params.branch }}'])(
  'a value that git would read as more than a name is refused with its place: %s',
  (sha) => {
    const { diagnostics, plan } = compileRef('${{ params.sha }}', { sha });
    expect(plan).toBeNull();
    expect(diagnostics).toEqual([
      expect.objectContaining({ code: 'spec/bad-value', severity: 'error', line: 7, column: 55 }),
    ]);
    expect(diagnostics[0]!.message).toContain('`ref` of the workspace of');
    expect(diagnostics[0]!.message).toContain('which is no hash and no name of a branch or tag');
  },
);

test('a value completes a name', () => {
  expect(refOf(compileRef('release/${{ params.sha }}', { sha: '2' }))).toMatchObject({ ref: 'release/2' });
  expect(compileRef('release/${{ params.sha }}', { sha: '../x' }).diagnostics).toHaveLength(1);
});

test('an author may write an ancestor', () => {
  expect(refOf(compileRef('main~3', { sha: 'x' }))).toMatchObject({ ref: 'main~3' });
});

test('a parameter that a run must set is no mistake of a ref', () => {
  const missingParams: string[] = [];
  const text = SPEC.replace('REF', '"${{ params.sha }}"');
  const { diagnostics } = compileText(text, 'x.yaml', { baseDir: '/', missingParams });
  expect([diagnostics, missingParams]).toEqual([[], ['sha']]);
});
