/** `voidbox/skill-kit/cli` in bundles that a worker makes of a skill's script: hands the definition over, and holds no transport. */
import { offerToWorker, type Offered } from './worker-handoff.ts';

export async function main(definition: Offered): Promise<void> {
  if (!offerToWorker(definition))
    throw new Error('this bundle of a skill is made for a worker of Voidbox. Run the script that it was made of.');
}

export {
  main as compositeMain,
  main as mcpCompositeMain,
  main as mcpMain,
  main as mcpReferenceMain,
  main as referenceMain,
};
