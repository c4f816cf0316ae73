/** The shapes of requests to Void-Box's API. Unknown keys have no effect, as in Void-Box. */
import { z } from 'zod';
import { countUtf8Bytes } from '../../domain/units/utf8.ts';
import { VARIABLES_BYTES } from '../limits.ts';

const Text = z.string().refine((text) => !/\p{Surrogate}/u.test(text), 'it is not Unicode text');
const Count = z.number().int().min(0).max(0xff_ff_ff_ff);
const Seconds = z.number().int().min(0).max(Number.MAX_SAFE_INTEGER);

const PolicyBody = z.object({
  max_parallel_microvms_per_run: Count.optional(),
  max_stage_retries: Count.optional(),
  stage_timeout_secs: Seconds.optional(),
  cancel_grace_period_secs: Seconds.optional(),
});

export const CreateRunBody = z.object({
  file: Text,
  input: Text.nullish(),
  run_id: Text.nullish(),
  policy: PolicyBody.nullish(),
  snapshot: Text.nullish(),
  /** Not a key of Void-Box, whose runs read the environment of the daemon. */
  variables: z
    .record(Text, Text)
    .refine(
      (variables) =>
        Object.entries(variables).reduce(
          (size, [name, value]) => size + countUtf8Bytes(name) + countUtf8Bytes(value),
          0,
        ) <= VARIABLES_BYTES,
      `names and values have more than ${VARIABLES_BYTES} bytes`,
    )
    .nullish(),
});

export const CancelBody = z.object({ reason: Text.nullish() });

export const MessageBody = z.object({ role: Text, content: Text });
