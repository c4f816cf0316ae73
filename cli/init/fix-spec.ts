/** The spec that `voidbox init` writes in a git repository with tests: an agent fixes them, and a command runs them. */
import type { PackageNeeds, ProjectTests } from './project.ts';

/** The path of the image with the package manager, from the folder of the spec. */
export const IMAGE_FILE = 'image.tar';

/** The command that makes the image. */
export function renderImageCommand({ image }: PackageNeeds): string {
  return `docker export $(docker create ${image}) > ${IMAGE_FILE}`;
}

export function renderFixSpec({ command, packages }: ProjectTests): string {
  const script = JSON.stringify([
    { run: 'echo "The mock agent was here." > MOCK_AGENT.md && git add -A && git commit -qm "note the mock agent"' },
    { result: 'I am the mock agent: I wrote MOCK_AGENT.md and fixed nothing.' },
  ]);
  const test = packages === null ? command : `${packages.install} && ${command}`;
  return `# An agent fixes a failing test of this repository; a command runs the test on what it left.
${packages === null ? '' : describeImage(packages)}#   voidbox run voidbox.yaml --mock-agents      # without a model and without a key: shows how a run works
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
        The tests of this repository fail. Run them with: ${test}
        Find the mistake, fix it and commit. Do not change the tests.
      workspace: { git: . }
      env: { MOCK_AGENT_SCRIPT: ${quote(script)} }   # only the mock agent reads it
${packages === null ? '' : `      sandbox: { image: ./${IMAGE_FILE}, egress: { allow: [provider, ${packages.registry}] } }\n`}
    - name: test
      run: ${quote(test)}
      workspace: { from: fix, changes: none }
      sandbox: ${packages === null ? '{ image: dev }' : `{ image: ./${IMAGE_FILE}, memory_mb: 1024, egress: { allow: [${packages.registry}] } }`}
`;
}

function describeImage(packages: PackageNeeds): string {
  return `# The tests need packages, and the image \`dev\` has no ${packages.manager}. First make an image that has it, here once:
#   ${renderImageCommand(packages)}
# Keep this file out of git. Without Docker, or with the packages in the image: voidbox explain your-own-image
`;
}

/** A text of YAML in one line. */
function quote(text: string): string {
  return `'${text.replaceAll("'", "''")}'`;
}
