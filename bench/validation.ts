/** Specs of many stages, as programs generate them, and what `voidbox validate` takes for them. */
import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { measureProcess } from './cli.ts';
import type { Arm } from './measure.ts';

export const SPEC_SHAPES = ['pipeline', 'workflow'] as const;
export type SpecShape = (typeof SPEC_SHAPES)[number];
export const SPEC_SIZES = [200, 2_000] as const;

export function validationArm(bin: string, workDir: string, shape: SpecShape, stages: number): Arm<'cpuMs'> {
  const spec = join(workDir, `${shape}-${stages}.yaml`);
  writeFileSync(spec, shape === 'pipeline' ? pipelineSpec(stages) : workflowSpec(stages));
  return {
    name: `${shape}, ${stages} ${shape === 'pipeline' ? 'boxes' : 'steps'}`,
    async round() {
      const { cpuMs } = await measureProcess([process.execPath, bin, 'validate', spec]);
      return { cpuMs };
    },
  };
}

/** A chain of boxes, each with the keys that a generated spec has. */
export function pipelineSpec(count: number): string {
  const boxes = Array.from(
    { length: count },
    (_, index) => `    - name: box-${index}
      run: { program: sh, args: [-c, "echo $INDEX; cat input.json"] }
      env: { INDEX: "${index}", PLACE: "\${{ params.place }}" }
      timeout_secs: 60
      retry: { max_attempts: 2, backoff_secs: 1 }
`,
  );
  return `api_version: v1
kind: pipeline
name: generated
params: { place: north }
pipeline:
  boxes:
${boxes.join('')}`;
}

/** Steps with a VM each, of which each waits for up to three earlier ones and reads one of them. */
export function workflowSpec(count: number): string {
  const steps = Array.from({ length: count }, (_, index) => {
    const before = [...new Set([index - 1, index - 7, Math.floor(index / 2)])].filter((at) => at >= 0 && at < index);
    const edges = before.length === 0 ? '' : `      depends_on: [${before.map((at) => `step-${at}`).join(', ')}]\n`;
    const stdin = index === 0 ? '' : `, stdin_from: step-${index - 1}`;
    return `    - name: step-${index}
      run: { program: sh, args: [-c, "cat; echo ${index}"]${stdin} }
${edges}      sandbox: { memory_mb: 256 }
`;
  });
  return `api_version: v1
kind: workflow
name: generated
workflow:
  output_step: step-${count - 1}
  steps:
${steps.join('')}`;
}
