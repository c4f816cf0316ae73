import { testAccess } from '../../conformance/access.ts';
import { testDeployments } from '../../conformance/deployments.ts';
import { testSchedules } from '../../conformance/schedules.ts';
import { testApprovalLinks } from '../../conformance/approval-links.ts';
import { testSecrets } from '../../conformance/secrets.ts';
import { testDeliveries } from '../../conformance/deliveries.ts';
import { testSources } from '../../conformance/sources.ts';
import { testRunEnds } from '../../conformance/run-ends.ts';
import { createMemoryAccess } from './memory-access.ts';

const subject = { name: 'in memory', open: () => Promise.resolve(createMemoryAccess()) };
testAccess(subject);
testDeployments(subject);
testSecrets(subject);
testApprovalLinks(subject);
testDeliveries(subject);
testSchedules(subject);
testSources(subject);
testRunEnds(subject);
