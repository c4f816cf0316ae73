import type { ErrorCodeInfo } from './code-info.ts';

/** Why a delivery started no run. */
export const TRIGGER_CODES = {
  'trigger/no-match': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The `when` of the trigger does not hold for the delivery.',
    remedy:
      'If it should start a run, change `when`, test it with `voidbox delivery explain`, deploy again and replay the delivery.',
  },
  'trigger/paused': {
    kind: 'delivery',
    retry: 'never',
    summary:
      'The deployment was paused with `drop` when the delivery was decided, or the delivery is for a time of a schedule that was paused.',
    remedy: 'Resume the deployment and replay the delivery: `voidbox delivery replay ID`.',
  },
  'trigger/missed': {
    kind: 'delivery',
    retry: 'never',
    summary:
      'The time of the schedule passed while the service or the server of Temporal was away, and `catchup` and `window` do not start it.',
    remedy:
      'Ask for the time: `voidbox schedule backfill DEPLOYMENT TRIGGER --from TIME --to TIME`. To start missed times in future, write `catchup: last` or `catchup: all`.',
  },
  'trigger/overlap': {
    kind: 'delivery',
    retry: 'never',
    summary: 'A run of the schedule was open at its next time, and `overlap` is `skip`, or too many deliveries waited.',
    remedy:
      'Ask for the time: `voidbox schedule backfill DEPLOYMENT TRIGGER --from TIME --to TIME`. To start such times in future, change `overlap`.',
  },
  'trigger/rate-limited': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The rate of the trigger was used up, and its `on_limit` is `drop`.',
    remedy: 'Raise `rate.limit`, or write `on_limit: hold`. Then replay the delivery.',
  },
  'trigger/expired': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The time to live of the delivery was over before its run could start.',
    remedy: 'Send it again with a longer time to live.',
  },
  'trigger/deployment-deleted': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The deployment was deleted before the run of the delivery could start.',
    remedy: 'Deploy the spec again and send the event again.',
  },
  'trigger/circle': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The deployments of the delivery follow each other in a circle, so that their runs would never end.',
    remedy: 'Remove `run` from one of the triggers that the message names, and deploy its spec again.',
  },
  'trigger/long-chain': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The run would be the eleventh of a chain of deployments whose runs follow each other.',
    remedy:
      'Join stages of several deployments in one spec, or let a trigger follow an earlier deployment of the chain. `voidbox delivery show ID` prints the chain.',
  },
  'trigger/run-lost': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The store does not contain the run whose end is the event: it was not admitted, or was pruned.',
    remedy: 'The `failure` of the payload has this code. `voidbox delivery show ID` of its delivery says more.',
  },
  'trigger/no-output': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The run whose end is the event has no output of the name in `run.output`, or several of it.',
    remedy:
      'Name a stage of the other deployment that has an output, or `STAGE.OUTPUT`; `voidbox artifacts RUN` lists them. Then deploy the spec again and replay the delivery.',
  },
  'trigger/unknown': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The version that the delivery was accepted for has no trigger of this name.',
    remedy: 'Use a name that `voidbox deployment show` lists.',
  },
  'trigger/bad-payload': {
    kind: 'delivery',
    retry: 'never',
    summary: 'An expression of the trigger reads the payload, which is not valid text, JSON or form data.',
    remedy: 'Correct the sender: it must send UTF-8 with the content type of its data.',
  },
  'trigger/bad-expression': {
    kind: 'delivery',
    retry: 'never',
    summary: 'An expression of the trigger has no value for this delivery; the message names the key and the reason.',
    remedy:
      'Correct the expression, for example with `has(…)` before a key that may be absent. Test it with `voidbox delivery explain`, deploy again and replay the delivery.',
  },
  'trigger/refused-file': {
    kind: 'delivery',
    retry: 'never',
    summary:
      'A name in the watched folder is a link, a device, a named pipe or a socket, or its name, its size or its permissions do not allow to read it.',
    remedy:
      'The message has the reason. Replace it by a file that the service may read: a changed file is looked at again.',
  },
  'trigger/refused-row': {
    kind: 'delivery',
    retry: 'never',
    summary:
      'The payload of a row of an outbox is not JSON, or has more than 1 MiB. The row is marked with the reason.',
    remedy: 'Correct the application, and let it write a new row.',
  },
  'trigger/payload-deleted': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The payload of the delivery is deleted, because payloads are kept for 7 days.',
    remedy: 'Send the event again.',
  },
  'trigger/too-large': {
    kind: 'delivery',
    retry: 'never',
    summary: 'A message of a queue has more than 1 MiB. The service has not kept it and does not read it again.',
    remedy: 'Let the sender store large data elsewhere, and send its address.',
  },
  'trigger/redelivered': {
    kind: 'delivery',
    retry: 'never',
    summary:
      'A queue delivered a message more often than `max_deliver` allows, because no delivery of it was acknowledged. The service does not read it again.',
    remedy: 'Read the log of the service for the reason. Then replay the delivery: `voidbox delivery replay ID`.',
  },
  'trigger/uncommitted': {
    kind: 'delivery',
    retry: 'never',
    summary: 'The database could not store a message of a queue as it is, at each of its deliveries.',
    remedy: 'Correct the headers of the message at its sender, and send it again.',
  },
} as const satisfies Record<string, ErrorCodeInfo>;
