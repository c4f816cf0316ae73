/** The spec that `voidbox init` writes in a git repository with tests: an agent fixes them, and a command runs them. */

/** @param testCommand  one line that a shell runs in the repository */
export function renderFixSpec(testCommand: string): string {
  const script = JSON.stringify([
    { run: 'echo "The mock agent was here." > MOCK_AGENT.md && git add -A && git commit -qm "note the mock agent"' },
    { result: 'I am the mock agent: I wrote MOCK_AGENT.md and fixed nothing.' },
  ]);
  return `# An agent fixes a failing test of this repository; a command runs the test on what it left.
#   voidbox run voidbox.yaml --mock-agents      # without a model and without a key: shows how a run works
#   ANTHROPIC_API_KEY=… voidbox run voidbox.yaml
#   voidbox apply latest --check                # what changed, file by file
#   voidbox apply latest --branch               # as a branch; without --branch into the working tree
api_version: v1
kind: pipeline
name: fix-a-test
llm: { provider: claude }      # or claude-personal, codex, codex-personal, ollama, lm-studio

pipeline:
  boxes:
    - name: fix
      prompt: |
        The tests of this repository fail. Run them with: ${testCommand}
        Find the mistake, fix it and commit. Do not change the tests.
      workspace: { git: . }
      env: { MOCK_AGENT_SCRIPT: ${quote(script)} }   # only the mock agent reads it

    - name: test
      run: ${quote(testCommand)}
      workspace: { from: fix, changes: none }
      sandbox: { image: dev }
`;
}

/** A text of YAML in one line. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
