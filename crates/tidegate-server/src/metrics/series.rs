//! Writing the series of a metric, with the help text of its name.

use core::fmt;

use prometheus_client::encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;

use super::help;

/// A metrics page that is being written.
pub(super) struct SeriesEncoder<'e, 'd>(pub(super) &'e mut DescriptorEncoder<'d>);

impl SeriesEncoder<'_, '_> {
    /// Writes a gauge with a series for each set of labels.
    pub(super) fn gauges<L: EncodeLabelSet, V>(
        &mut self,
        name: &'static str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result
    where
        ConstGauge<V>: EncodeMetric,
    {
        self.series(
            name,
            MetricType::Gauge,
            series.into_iter().map(|(of, value)| (of, ConstGauge::new(value))),
        )
    }

    /// Writes a counter with a series for each set of labels.
    pub(super) fn counters<L: EncodeLabelSet, V>(
        &mut self,
        name: &'static str,
        series: impl IntoIterator<Item = (L, V)>,
    ) -> fmt::Result
    where
        ConstCounter<V>: EncodeMetric,
    {
        self.series(
            name,
            MetricType::Counter,
            series.into_iter().map(|(of, value)| (of, ConstCounter::new(value))),
        )
    }

    /// Writes a metric without labels.
    pub(super) fn one(&mut self, name: &'static str, value: &impl EncodeMetric) -> fmt::Result {
        value.encode(self.0.encode_descriptor(name, help(name), None, value.metric_type())?)
    }

    fn series<L: EncodeLabelSet, M: EncodeMetric>(
        &mut self,
        name: &'static str,
        kind: MetricType,
        series: impl Iterator<Item = (L, M)>,
    ) -> fmt::Result {
        let mut family = self.0.encode_descriptor(name, help(name), None, kind)?;
        for (labels, value) in series {
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}
